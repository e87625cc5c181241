document.querySelectorAll("th button").forEach(button=>button.addEventListener("click",()=>{
const head=button.parentElement,table=head.closest("table"),body=table.tBodies[0],at=head.cellIndex;
const up=head.getAttribute("aria-sort")!=="ascending";
const key=row=>row.cells[at].textContent.trim(),number=text=>parseFloat(text.replace(/[,\u00a0 %]/g,
"").replace("\u2212","-"));
table.querySelectorAll("th").forEach(other=>other.removeAttribute("aria-sort"));
head.setAttribute("aria-sort",up?"ascending":"descending");
[...body.rows].sort((a,b)=>{const x=key(a),y=key(b),n=number(x)-number(y);
return (Number.isNaN(n)?x.localeCompare(y):n)*(up?1:-1)}).forEach(row=>body.append(row))}));
