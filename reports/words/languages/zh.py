"""Chinese, in simplified characters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

SENTENCES = {
    "question.label_only": "仅凭该模型给出的预测标签，能否判断{units}是否用于训练？",
    "question.final_model": "凭该模型的输出，能否判断{units}是否用于训练？",
    "question.final_weights": "凭该模型的权重，能否判断{units}是否用于训练？",
    "question.all_steps": "凭训练中每个加噪步骤，能否判断{units}是否用于训练？",
    "question.other": "凭所发布的内容（{what}），能否判断{units}是否用于训练？",
    "units.example": "某条记录",
    "units.client": "某个客户端的数据",
    "units.user": "某个用户的数据",
    "units.document": "某份文档",
    "units.other": "某个 {unit} 的数据",
    "question.secret": "凭所发布的内容（{what}），能否得知训练数据中的秘密？",
    "question.secret.attribute": "凭所发布的内容（{what}），能否得知某条训练记录的未知取值？",
    "question.secret.candidate": "凭所发布的内容（{what}），能否从多个候选中认出某条训练记录？",
    "question.secret.property": "凭所发布的内容（{what}），能否得知训练数据整体的某一性质？",
    "question.secret.text secret": "凭所发布的内容（{what}），能否得知训练文本中的秘密？",
    "answer.guesses": "攻击 {attack} 在 {secrets} 个目标（{kind}）中猜对 {right} 个，即 {share}；区间 {low} 至 "
    "{high}，只猜最可能的取值 {chance} %。",
    "question.none": "凭该模型能否判断{units}是否用于训练？",
    "answer.yes": "能",
    "answer.a little": "能，但程度有限",
    "answer.not shown": "未能证明",
    "answer.no answer": "没有结论",
    "answer.rate": "在假阳性率为 {fpr} 时，攻击 {attack} 在{members}中找出 {tpr}；区间 {low} 至 {high}，随机猜测 {chance}。",
    "answer.no_rate": "记录太少，无法测得任何比率。",
    "answer.proven": "它证明 {proof}。",
    "answer.nothing_proven": "没有攻击证明存在泄露（上限 {ceiling}）。这并不表明没有泄露。",
    "answer.split": "由于成员身份由数据划分决定，得不出 ε。",
    "answer.no_draw": "由于秘密的取值不是随机抽取的，得不出 ε。",
    "answer.void": "证据不可用：{reason}。",
    "answer.nothing": "没有运行任何攻击。",
    "answer.other": "{question}{strength}。",
    "proof": "对任意机制 ε ≥ {epsilon}，置信水平 {confidence}（该博弈的上限为 {ceiling}）",
    "proof.nothing": "无",
    "proof.with": "{bound}{inside}，置信水平 {confidence}",
    "answer.at least a little": "至少有一些",
    "answer.too few to say": "记录太少，无法判断",
    "answer.proven_at": "凭 {ending}，它证明 {proof}。",
    "answer.no_bound": "没有计算 ε 的界。",
    "answer.area": "就全部阈值而言，其 AUC 为 {area}（{low} 至 {high}）；0.5 为随机猜测。",
    "answer.property": "这是数据整体的一项性质：针对单条记录的差分隐私对此不作任何承诺，由此得不出 ε。",
    "answer.void_short": "其自身的检验未通过",
    "answer.views": "其他各问：",
    "answer.view": "{name}：{strength}{proof}",
    "question.of_training": "{training}：{question}",
    "members.given": "作为成员给出的 {number} 条记录",
    "members.by_coins": "据声明由硬币放入训练的 {number} 条记录",
    "members.planted": "本次审计植入的 {number} 个成员（{kind}）",
    "fact.risk": "对人的风险",
    "fact.next": "下一步",
    "risk.shown": "拥有该访问权限者能够明显优于猜测地判断此类记录是否用于训练。若身处这些数据本身就透露某人的情况（如疾病、"
    "债务），则该情况已被泄露。",
    "risk.shown_in_part": "拥有该访问权限者能够优于猜测地判断此类记录是否用于训练。"
    "若身处这些数据本身就透露某人的情况（如疾病、债务），则其中一部分已被泄露。",
    "risk.unknown": "本次审计无法说明记录被使用的人是否暴露。",
    "risk.not_shown": "已运行的攻击没有使任何人暴露到超出猜测的程度。更强的攻击可能做到。",
    "risk.property": "所得知的是数据背后群体的情况，而非其中某一个人的情况；它可能损害属于该群体的所有人。",
    "next.the_owner": "所有者（未具名）",
    "next.the_auditor": "审计者（未具名）",
    "next.until": "下次审计：{date}。",
    "next.violated": "{owner}：不要依赖该声明；查明是训练有误还是声明有误，改正后再次审计。",
    "next.invalid": "{auditor}：查明检验为何未通过，改正后重新审计；在此之前不要依据本报告作任何决定。",
    "next.gate": "{owner}：发布策略有一项门限未满足；请更改训练或发布方式，然后再次审计。",
    "next.too_few": "{auditor}：每一方至少用 {more} 条记录（现为 {records} 条）重新审计。",
    "next.out_of_reach": "{auditor}：用能够触及该声明的博弈重新审计（见“如何更强”）。",
    "next.not_shown": "{owner}：将本报告与发布内容一同保存；数据、训练或发布方式变化时再次审计。",
    "next.shown": "{owner}：判断数据中的人能否承受这一泄露；若不能，请保护训练或缩小发布范围，然后再次审计。",
    "next.shown_under_a_claim": "{owner}：判断数据中的人能否承受这一泄露；声明未被反驳并不能决定这一点。",
    "noun.false_alarm": "{count} 次误报",
    "trust.drawn_here": "由本次审计抽取",
    "trust.declared": "仅为声明，未经检验",
    "trust.failed": "未通过",
    "trust.inputs_checked": "输入已检验",
    "trust.not_checked": "未经检验",
    "power.not_simulated": "没有模拟它们能发现多大的泄露。",
    "power.none": "模拟表明，无论真实的 ε 多大，都不会以 {chance} 的概率被发现。",
    "power.from": "模拟表明，{inside}真实的 ε 从 {epsilon} 起会以 {chance} 的概率被发现。",
    "power.inside": "在{family}族内，",
    "cover.assumption_count": "{count} 项{word}",
    "cover.any_mechanism_beside": "（对任意机制 ε ≥ {epsilon}）",
    "unclaimed.of_training": "“{name}”：{sentences}",
    "unclaimed.secrets_named": "猜中的秘密",
    "unclaimed.auc": "AUC",
    "unclaimed.inside": "{detail}。仅在{family}族内",
    "answer.wide": "记录太少，无法说明程度。",
    "answer.view_proof": "（对任意机制 ε ≥ {epsilon}）",
    "cover.could_have_proven_inside": "在该族内最多可证明 {epsilon}",
    "claim.of_another_view": "这是对“{name}”的声明，ε ≤ {epsilon}。",
    "claim.none_for_the_lead": "对本页首先说明的“{name}”没有任何声明。",
    "cover.all_attacks_prove": "全部攻击合起来证明 {proof}",
    "answer.proven_together": "该博弈的全部攻击合起来证明 {proof}。",
    "fact.claim": "声明",
    "fact.policy": "发布策略",
    "fact.trust": "成员身份",
    "fact.trust_of_secrets": "秘密",
    "fact.stronger": "如何更强",
    "fact.notes": "备注",
    "policy.none": "未设定策略，因此本报告不对发布作任何判断。",
    "policy.met": "满足",
    "policy.not_met": "不满足",
    "policy.gates": "{all} 项门限中有 {met} 项成立。",
    "policy.no_figure": "无数值",
    "policy.missed": "{gate}：限值 {limit}，实测 {found}。",
    "trust.coins": "成员身份由已记录的硬币决定。",
    "trust.split": "成员身份由数据划分决定。",
    "trust.draws": "每个秘密的取值由训练过程无法预知的、已记录的随机抽取决定。",
    "trust.no_draws": "秘密的取值不是随机抽取的。",
    "trust.control": "阴性对照在 {repetitions} 次重复中出现{alarms}（允许 {allowed} 次）。",
    "trust.no_control": "没有运行阴性对照。",
    "trust.guard": "仅凭输入能否区分两部分：{value}。",
    "trust.no_guard": "没有检验两部分在询问模型之前是否已有差别。",
    "stronger.coins": "要能够反驳对任意机制的 ε ≤ {epsilon}，一个博弈至少需要 {needed} 枚硬币且全部猜对；这里最大的博弈有 "
    "{coins} 枚。",
    "stronger.records": "若有 {more} 个成员和同样多的非成员（现为 {records}），区间宽度将减半。",
    "stronger.references": "使用参考模型的攻击随其数量增加而变强；这里有 {references} 个，已发表的攻击使用 64 至 256 个。",
    "stronger.no_references": "没有训练参考模型；已发表的攻击使用 64 至 256 个。",
    "annex": "附录：各项要求以及本报告在何处作出说明",
    "annex.law": "本附录将证据与文本条款对应。它不是法律意见，也不判断是否合乎规定：处理活动的描述与必要性、所有者的选择以及"
    "发布决定均由控制者负责。",
    "annex.caption": "已说明：报告中有此内容。部分：仅为声明，或只涵盖审计的一部分。未说明：此处缺失。",
    "annex.requirement": "要求",
    "annex.source": "来源",
    "annex.place": "章节与 report.json 字段",
    "annex.status": "状态",
    "annex.number": "编号",
    "annex.shown": "已说明",
    "annex.partly": "部分",
    "annex.not_shown": "未说明",
    "annex.not_for_this_tool": "不属本工具",
    "annex.cell_page": "{section}（第 {page} 页），",
    "annex.cell": "{section}，",
    "annex.first_page": "首页",
    "annex.section_game": "博弈",
    "annex.R1": "ε 及其隐私单位",
    "annex.R2": "相邻关系，且前后一致",
    "annex.R3": "全部参数，以便他人换算",
    "annex.R4": "每个 ε 均附 δ",
    "annex.R5": "声明的实际意义",
    "annex.R6": "声明之外对数据的使用",
    "annex.R7": "发布的内容",
    "annex.R8": "会计方法，并有另一种作对照",
    "annex.R9": "信任模型",
    "annex.R10": "实现上的隐患",
    "annex.R11": "来自相同数据的其他发布",
    "annex.R12": "对隐私水平的实证检验",
    "annex.R13": "每一类攻击，无论运行与否",
    "annex.R14": "测试的范围、数量与功效",
    "annex.R15": "威胁模型与发布情境",
    "annex.R16": "测试报告：何人、何时、如何、结果",
    "annex.R17": "最坏的记录与群组，而非平均值",
    "annex.R18": "各群组的泄露",
    "annex.R19": "有无差分隐私时的效用",
    "annex.R20": "描述、必要性、风险、措施",
    "annex.R21": "注明日期并签署的测试报告",
    "annex.R22": "系统、软件、硬件的版本",
    "annex.R23": "设计选择与权衡",
    "annex.R24": "风险变化时的复审",
    "annex.R25": "明确陈述的剩余风险",
    "annex.R26": "公开披露",
    "label.title": "隐私审计",
    "label.what": "项目",
    "label.said": "结论",
    "label.source": "摘自审计报告 {id}，由 audit {version} 生成。仅涉及已测试的攻击；可能存在更强的攻击。",
    "contents": "目录",
    "attack_classes": "已运行与未运行的攻击",
    "verdict.violated": "该声明被反驳",
    "verdict.consistent": "该声明未被反驳",
    "verdict.out_of_reach": "不可检验：本次审计不可能反驳该声明",
    "verdict.invalid": "无效：本次审计对该声明不作任何说明",
    "verdict.none": "没有检验任何声明",
    "outcome.violated": "被反驳",
    "outcome.consistent": "未被反驳",
    "outcome.out_of_reach": "不可检验",
    "outcome.invalid": "无效",
    "outcome.none": "无声明",
    "status.checked": "已检验",
    "status.declared": "仅声明",
    "status.gap": "缺口",
    "status.failed": "未成立",
    "coverage.run": "已运行",
    "coverage.partly": "部分",
    "coverage.not_run": "未运行",
    "coverage.not_applicable": "不适用",
    "coverage.out_of_scope": "超出范围",
    "adjacency.add_remove": "增加或删除一条记录",
    "adjacency.replace_one": "以另一条记录替换一条记录",
    "adjacency.zero_out": "将其中一个置零",
    "sees.label_only": "模型的预测标签",
    "sees.final_model": "模型的输出",
    "sees.final_weights": "最终权重",
    "sees.all_steps": "每个加噪步骤",
    "sees.released_models": "每轮之后的模型",
    "sees.secure_sum": "每轮更新之和",
    "sees.each_update": "每轮中每个客户端的更新",
    "sees.generations": "最终模型写出的文本",
    "sees.log_probabilities": "每个文本的词元在最终模型下的对数概率",
    "sees.token_distributions": "最终模型下每个下一词元的分布",
    "level.label_only": "预测标签",
    "level.final_model": "模型输出",
    "level.final_weights": "最终权重",
    "level.all_steps": "每个加噪步骤",
    "level.released_models": "每次发布的模型",
    "level.secure_sum": "保密求和",
    "level.each_update": "每个更新",
    "assumption.independent_coins": "硬币相互独立",
    "assumption.independent_trials": "试验相互独立",
    "assumption.independent_secrets": "取值按所声明的分布独立抽取",
    "assumption.independent_answers": "各次发布互不依赖他人的秘密",
    "assumption.replaced_values": "针对替换一个取值的声明",
    "family.gdp": "高斯差分隐私",
    "family.dp_sgd": "泊松抽样的 DP-SGD",
    "gate.max_claimed_epsilon": "声明的 ε 至多为",
    "gate.max_proven_epsilon": "已证明的 ε 至多为",
    "gate.max_tpr_at_1_percent_fpr": "FPR 为 1 % 时的 TPR 至多为",
    "gate.max_auc": "攻击 AUC 至多为",
    "gate.min_accuracy": "准确率至少为",
    "internal.mark": "内部",
    "internal.reason": "：本版列出单条记录；可用以下命令将其省去：",
    "internal.table": "内部资料：读到此表者即知哪些记录在训练集中。转交报告前请将其删除。",
    "read.claims": "声明是一个上界：训练模型者称，一条记录对结果的影响不超过 ε 所允许的程度。攻击给出一个下界：它表明一条记"
    "录对结果的影响至少有这么大。审计可以用高于声明的下界反驳声明，但不能证明声明：可能存在更强的攻击。",
    "read.claims_clients": "声明是一个上界：训练模型者称，一个客户端的全部数据和更新对结果的影响不超过 ε 所允许的程度。攻击给出"
    "一个下界：它表明一个客户端对结果的影响至少有这么大。审计可以用高于声明的下界反驳声明，但不能证明声明："
    "可能存在更强的攻击。",
    "read.attacks": "训练好的模型可能泄露哪些记录在其训练数据中。攻击给每条记录一个分数；在很少把他人误判为成员的同时找出的"
    "真正成员越多，模型泄露得就越多。审计可以表明模型有泄露，但不能表明它没有泄露：可能存在更强的攻击。",
    "never.claim": "本报告不断言某项声明为真。未被反驳的声明只是经受住了此处所列的攻击，仅此而已。",
    "never.law": "本报告不断言模型或其数据不受数据保护法约束，也不断言满足任何法律或标准。这些由控制者与主管机关决定；本报告"
    "只是供其参考的证据。",
    "never.attacks": "本报告不涉及未运行的攻击、来自相同数据的其他发布，或此后以其他配置训练的模型。",
    "never.average": "本报告不把平均值说成对每个人的结论：最易暴露的记录可能比这里任何数字都更糟。",
    "limits.game": "每个下界只对测得它的博弈成立。攻击者所见较少的博弈证明得较少，且对所见更多的攻击者不作任何说明。",
    "limits.unit": "保证针对一个隐私单位，除声明另有说明外即一条记录。拥有多条记录的人受到的保护较弱。",
    "limits.delta": "各界在所述 δ 下成立。不同 δ、单位或相邻关系下的数字不可比较。",
    "limits.machine": "浮点运算、随机数生成器和计时可能在机制之外造成泄露；本次审计不检验这些。",
    "term.accountant": "隐私会计",
    "term.adjacency": "相邻关系",
    "term.canary": "金丝雀样本",
    "term.ceiling": "上限",
    "term.confidence": "置信水平",
    "term.delta": "δ（delta）",
    "term.dp_sgd": "DP-SGD",
    "term.epsilon": "ε（epsilon）",
    "term.fpr": "假阳性率",
    "term.membership_inference": "成员推断",
    "term.negative_control": "阴性对照",
    "term.tpr": "真阳性率",
    "meaning.accountant": "在给定 δ 下把所有训练步骤的隐私代价累加为一个 ε 的程序。",
    "meaning.adjacency": "哪两个数据集算作相邻：增加或删除一条记录，或替换一条记录。",
    "meaning.canary": "由硬币决定是否植入训练的记录或构造的梯度，以便寻找其痕迹。",
    "meaning.ceiling": "即使分数完美，本次审计所能证明的最大 ε。高于它的声明在这里无法被反驳。",
    "meaning.confidence": "一种方法在重复使用时正确的频率：95 % 的下界在 100 次审计中至多有 5 次过高。",
    "meaning.delta": "ε 保证可能不成立的微小概率。",
    "meaning.dp_sgd": "将每条记录的梯度裁剪到固定长度，并在每次求和时加入高斯噪声的训练方法。",
    "meaning.epsilon": "一条记录最多能把任何结果的概率改变多少：至多 e 的 ε 次方倍。",
    "meaning.fpr": "攻击误判为成员的非成员所占的比例（FPR）。",
    "meaning.membership_inference": "由模型判断给定记录是否在其训练数据中。",
    "meaning.negative_control": "对毫无意义的硬币做同样的统计。若它过于频繁地“证明”什么，审计即作废。",
    "meaning.tpr": "攻击找出的成员所占的比例（TPR）。",
    "uses.accountant": "会计",
    "uses.adjacency": "相邻",
    "uses.canary": "金丝雀",
    "uses.ceiling": "上限",
    "uses.confidence": "置信",
    "uses.delta": "δ",
    "uses.dp_sgd": "DP-SGD",
    "uses.epsilon": "ε",
    "uses.fpr": "FPR|假阳性|误报",
    "uses.membership_inference": "成员推断",
    "uses.negative_control": "阴性对照",
    "uses.tpr": "TPR|真阳性",
    "no_epsilon": "不给出 ε。ε 的下界要求成员身份由训练过程无法预知的硬币决定；这里由数据划分决定。任何能区分两部分的因素，"
    "无论是否为泄露，都会计入。",
    "descriptive": "为本博弈训练的每个模型都依次充当目标。这些数字描述攻击对这类模型有多强、谁被暴露以及每次是否为相同的记录"
    "。它们不证明任何 ε，因为互为参考的模型的分数不得合并成一个界。",
    "signature.carried_out": "执行",
    "signature.reviewed": "复核",
    "signature.released": "批准发布",
    "signature.line": "{role}：姓名、职务、日期",
    "utility.of_run": "在未用于训练任何模型的测试记录上的效用。",
    "utility.of_records": "在所给记录上的效用。",
    "utility.first": "图中为 {all} 个数值中的 {rows} 个；全部见表。",
    "utility.marks_are_means_over_models": "{utility_basis}标记为各模型的均值，线段两侧各为一个样本标准差。",
    "utility.dot_chart_of_utility": "效用点图。",
    "game.canaries": "金丝雀样本",
    "game.split": "{canaries} 个{kind}。成员身份由数据划分而非硬币决定。攻击者看到{sees}。",
    "game.one_run": "一次训练",
    "game.runs": "{runs} 次训练的每一次",
    "game.fair_coin": "一枚公平硬币",
    "game.coin": "一枚概率为 {probability} 的硬币",
    "game.sees": "攻击者看到{what}",
    "game.sees_steps": "攻击者看到每个加噪步骤，并知道所有其他记录以及每步使用了其中哪些",
    "game.one_reference": "，并自行训练了一个模型",
    "game.references": "，并自行训练了 {references} 个模型",
    "game.canaries_are_trials": "金丝雀样本互不影响，因此每个都是一次独立试验。",
    "game.runs_are_trials": "每次训练都是一次独立试验。",
    "game.coins": "{canaries} 个金丝雀样本（{kind}）各自是否进入训练集",
    "game.one_canary": "一个金丝雀样本（{kind}）是否进入训练集",
    "game.rules": "在{runs}中，由{chance}决定{coins}。{sees}{own}，并须据此判断每枚硬币的结果。相邻数据集：{adjacency}。"
    "{noise}",
    "game.secrets_references": "，自行训练了 {references} 个模型",
    "game.secrets_are_trials": "没有一次发布依赖两个秘密，因此每个秘密都是一次独立试验。",
    "game.secrets_see_steps": "每个加噪步骤",
    "game.secrets_see": "{what}",
    "game.one_secret": "在{runs}中，一个秘密（{kind}）取 {choices} 个值之一，由审计者按训练前声明的分布抽取。攻击者"
    "知道除该值以外的一切，看到{sees}{own}，并指出该值。相邻数据集：{adjacency}。{noise}",
    "game.secrets": "在{runs}中，{canaries} 个秘密（{kind}）各取 {choices} 个值之一，由审计者按训练前声明的分布抽取。攻击者"
    "知道除这些值以外的一切，看到{sees}{own}，并指出每个秘密的值。相邻数据集：{adjacency}。{noise}",
    "number.not_measured": "未测量",
    "number.no_guarantee": "无保证",
    "number.no_limit": "无上限",
    "number.no_finite_epsilon": "没有有限的 ε",
    "number.at_delta": "δ = {delta}",
    "separator.words": "、",
    "separator.clauses": "；",
    "separator.end": "。",
    "separator.last": "{names}和 {last}",
    "separator.sentences": "。",
    "separator.space": "",
    "noun.attack": "{count} 种攻击",
    "noun.game": "{count} 个博弈",
    "noun.trained_model": "{count} 个训练好的模型",
    "noun.target_model": "{count} 个目标模型",
    "noun.model": "{count} 个模型",
    "noun.member": "{count} 个成员",
    "noun.nonmember": "{count} 个非成员",
    "noun.thread": "{count} 个线程",
    "noun.record": "{count} 条记录",
    "noun.further_record": "另有 {count} 条记录",
    "noun.further_group": "另有 {count} 个群组",
    "noun.other_attack": "其他 {count} 种攻击",
    "noun.run": "{count} 次训练",
    "noun.release": "{count} 次发布",
    "noun.audit": "{count} 次审计",
    "page.assumption": "{item}：{value}（{status}）。",
    "page.section_of": "{kind}“{name}”",
    "page.which_classes_of_attack_were": "运行了哪些类别的攻击",
    "page.on_in_all": "，共 {many}",
    "page.claimed": "声明。",
    "page.tried": "尝试。",
    "page.in": "{many}{examples}，{many_2}{model_count}。",
    "page.examples": "（{examples}）",
    "page.error_rate": "错误率。",
    "page.not_tried": "未尝试。",
    "page.nothing_is_listed_as_left": "没有列出任何遗漏；见攻击类别表。",
    "page.attacks_none_was_run": "攻击；没有运行任何攻击",
    "page.what_was_audited": "审计对象",
    "page.release_policy": "发布策略",
    "page.in_plain_words": "通俗说明",
    "page.more": "另外 {len} 种",
    "page.no_was_claimed": "没有声明 ε。",
    "page.outcome_of_the_claims": "{len} 项声明的结果：{join_words}。",
    "page.an_is_claimed_for": "对 {join_words} 声明了 ε。{total}",
    "page.no_was_proven_so_no": "没有证明任何 ε，因此没有占用错误率。各区间单独成立。",
    "page.the_bounds_of_this_report": "本报告的 {comparisons} 个界同时成立",
    "page.the_bound_of_this_report": "本报告的界成立",
    "page.the_doubt_was_divided_among": "：在看到任何分数之前，错误概率已在它们之间分配，因此指出其中最大者不增加代价。",
    "page.bounds_are_void": "其中 {names} 的界作废。",
    "page.with_confidence": "{together}，置信水平为 {confidence}{correction}",
    "page.no_is_claimed_for_it": "对它没有声明 ε，因此没有可反驳的内容。这些数字说明它泄露了多少。",
    "page.how_the_model_was_trained": "模型如何训练；本次审计不在场",
    "page.checks_of_what_was_run": "实际运行内容与声明的核对",
    "page.checks_of_what_was_run_2": "实际运行内容的核对",
    "page.over_training_steps_no_accountant": "训练步骤上的 ε；没有会计方法涵盖此训练",
    "page.training": "训练",
    "page.model": "模型",
    "page.scores": "分数",
    "page.the_training_algorithm_m_is": "声明训练算法 M 是 (ε, δ)-差分隐私的（{at_delta}）。对任意两个相差一个{unit}的数据集"
    " D 与 D′（{adjacency}）以及任意结果集合 S：",
    "page.by_itself_it_rules_out": "它本身排除得很少：在假阳性率为 0.1 % 时找出 {percent} 成员的攻击仍未超出 {epsilon}。",
    "page.by_itself_lets_an_attack": "{epsilon} 本身允许攻击在假阳性率为 0.1 % 时至多找出 {percent} 的成员，在 1 % 时至多 "
    "{percent_2}。",
    "page.worth": "该声明的意义。",
    "page.what_the_claim_is_worth": "{sentence}",
    "page.what_the_claim_is_worth_2": "{sentence}所声明的机制在假阳性率为 0.1 % 时留给攻击约 {percent}，在 1 "
    "% 时约 {percent_2}。",
    "page.shared": "各项声明所依据的",
    "page.shared_by": "对 {names} 的每项声明均成立；各训练的表只列其余内容。",
    "page.claimed_as_before": "对它的声明同样是 (ε, δ)-差分隐私（{at_delta}），以{unit}为单位（{adjacency}），含义同上。",
    "page.the_game": "博弈。",
    "page.note": "备注。",
    "page.attacks_in_this_game_none": "此博弈中的攻击；没有运行任何攻击",
    "page.the_roc_of_this_game": "此博弈的 ROC 曲线见首页。",
    "page.the_negative_control_of_this": "此博弈的阴性对照",
    "page.groups": "群组",
    "page.the_rank_of_each_of": "{count} 个成员各自在 {count_2} 个非成员中的名次；Benjamini 与 Hochberg 方法，所列者中因偶然"
    "入选的至多 {percent}",
    "page.records_that_stand_out": "突出的记录",
    "page.no_member_stands_out_more": "没有成员突出到超出偶然的程度（{test}）。",
    "page.stand_out_more_than_chance": "{many}突出到超出偶然的程度（{test}）。{internal}",
    "page.lower_bounds_on_no_estimator": "ε 的下界；没有要求任何估计方法",
    "page.budget_of_these_data": "这些数据的隐私预算",
    "page.utility_it_was_not_measured": "效用；未测量",
    "page.utility": "效用",
    "page.no_false_positive_rate_below": "没有测量低于 {count} 分之一的假阳性率，因为非成员只有这么多。",
    "page.attacks": "攻击。",
    "page.nothing_is_said_about": "未涉及：{join}。",
    "page.limits_of_this_report": "本报告的局限",
    "page.of_this_audit": "本次审计的局限",
    "page.limits_of_this_audit_none": "本次审计的局限；没有记录",
    "page.what_this_report_never_says": "本报告从不断言的内容",
    "page.command": "命令",
    "page.seed": "随机种子",
    "page.seed_public": "{seed}（公开：由此可推出成员身份，仅供演示）",
    "page.seed_secret": "由系统生成，保存在运行文件夹的 private/seed",
    "page.code": "代码",
    "page.configuration_sha256": "配置的 sha256",
    "page.data_sha256": "数据的 sha256",
    "page.packages": "软件包",
    "page.machine": "机器",
    "page.device": "{platform}；设备 {device}；{many}",
    "page.schema": "{id}，模式 {schema}",
    "page.check_this_copy": "核对此副本",
    "page.takes_report_json_out_of": "从此 PDF 中取出 report.json，重新生成并比较。",
    "page.item": "项目",
    "page.value": "值",
    "page.configuration": "配置",
    "page.how_to_reproduce_and_verify": "如何复现与核对",
    "page.settings_are_those_of": "设置取自 ",
    "page.and_where_it_says_nothing": "，其中未写明的取默认值。",
    "page.setting": "设置",
    "page.origin": "来源",
    "page.settings_from_elsewhere": "来自别处的设置。",
    "page.attack_with_status": "{attack}（{status}）",
    "terms": "术语",
    "code.commit": "audit {version}，提交 {commit}",
    "code.no_commit": "audit {version}，提交未记录",
    "word.none": "无",
    "inside.family": "（仅在 {family} 族内）",
    "law.nothing": "毫无信息的分数",
    "law.with": "{law}（ε = {epsilon}）",
    "record.word": "记录",
    "outlying.at_least.one": "至少有 {records}在用其训练的模型中被找出的次数超出偶然（{test}）。",
    "outlying.at_least.many": "至少有 {records}在用其训练的模型中被找出的次数超出偶然（{test}）。",
    "outlying.found.one": "{records}在用其训练的模型中被找出的次数超出偶然（{test}）。",
    "outlying.found.many": "{records}在用其训练的模型中被找出的次数超出偶然（{test}）。",
    "rates.tpr_at": "FPR 为 {fpr} 时的 TPR",
    "bar.void_bound": "作废的 ε 为 {epsilon}{inside}，上限 {ceiling}",
    "bar.proven_bound": "已证明 ε 为 {epsilon}{inside}，上限 {ceiling}",
    "bar.only_inside": "（仅在 {family} 族内）",
    "bar.void": "作废 {epsilon}，上限 {ceiling}",
    "bar.proven": "已证明 {epsilon}，上限 {ceiling}",
    "bar.inside": "族内 {epsilon}，上限 {ceiling}",
    "bar.claimed": "声明 {epsilon}",
    "bar.infinite_claim": "声明值无上限",
    "bar.no_claim": "无声明",
    "bar.claim_and_evidence_red_the": "声明与证据。红色：攻击所证明的 ε",
    "bar.pale_only_inside_a_declared": "（浅色：仅在所声明的机制族内）",
    "bar.grey_bars_are_void": "；灰色条作废",
    "bar.grey_lines_the_ceiling_of": "。灰线：每个界所属博弈的上限，即完美分数在其中最多能证明的值（箭头：超出坐标轴）。",
    "bar.blue_the_tightest_claim": "蓝色：最严格的声明",
    "bar.thin_the_other_claims": "（细线：其他声明）",
    "bar.gravest": "图中为 {all} 个训练中最严重的 {bars} 个；全部见各博弈的表。",
    "bar.bar_chart": "条形图。",
    "bar.of_the_claim": "，为声明的 {part} 倍",
    "bar.what_each_adversary_can_show": "各种攻击者能对 {name} 证明什么，按其所见的训练内容区分。红色：其攻击所证明的 ε（浅"
    "色：仅在所声明的机制族内）。灰线：完美分数最多能证明的值。",
    "bar.what_each_adversary_could_have_shown": "若审计没有作废，各种攻击者本可对 {name} 证明什么，按其所见的训练内容区分。"
    "灰色条不证明任何内容（浅色：仅在所声明的机制族内）。灰线：完美得分本可证明的最大值。",
    "bar.blue_the_tightest_claim_2": "蓝色：最严格的声明，{up}。",
    "bar.nothing_proven": "没有证明",
    "bar.ends_at": "{accountant} 止于 {up}",
    "bar.proves": "{label} 证明 {down}",
    "bar.privacy_budget_of_over_training": "{name} 在训练过程中的隐私预算。蓝色：各会计方法在每步之后的声明。红色：",
    "bar.privacy_budget_of_a_void_audit": "{name} 在训练过程中的隐私预算。蓝色：会计方法在每一步之后声明的值。"
    "灰色：若审计没有作废，{join_words} 到该步为止本可证明的值。",
    "bar.void_end": "{label} 作废，为 {down}",
    "bar.line_chart_over_training_steps": "{count} 个训练步骤上的折线图，δ 为 {power}。",
    "bar.what_attacks_prove_nothing_is": "攻击所证明的；没有攻击观察单个步骤，故未绘出。",
    "bar.some_of_these_bounds_hold": "其中一些界仅在某一机制族内成立；见该博弈的表。",
    "bar.what_proves_from_the_steps": "{join_words} 由截至当时的步骤所证明的，各点单独取其置信水平。{only}",
    "bar.training_step": "训练步骤",
    "bar.at": "ε（δ = {power}）",
    "document.title": "隐私审计报告",
    "document.of": "隐私审计报告：{title}",
    "document.audited": "{title}。审计日期：{date}。",
    "document.page": "第 {page} 页，共 {pages} 页",
    "document.missing": "缺失",
    "document.to_quote": "可引用",
    "document.subject": "声明与证明的 ε、攻击、局限以及如何复现",
    "document.attached_report": "完整的机器可读报告；每一页均由它生成",
    "document.attached_config": "审计的全部设置，包括默认值",
    "document.formula": "M(D) 落入 S 的概率至多为 e 的 ε 次方乘以 M(D′) 落入 S 的概率，再加 δ。",
    "document.glyphs": "本文档字体所缺的字符以 {mark} 代替：{characters}。所附 report.json 保留其原样。",
    "date": "{year} 年 {month} 月 {day} 日",
    "date.months": "1|2|3|4|5|6|7|8|9|10|11|12",
    "curve.guessing": "{name}：在假阳性率 {fpr} 时找出 {tpr} 的成员（随机猜测：{fpr}）",
    "curve.and": "{many}和 {many_2}",
    "curve.at_false_positives_it_finds": "在假阳性率 {rate} 时找出 {rate_2} 的成员",
    "curve.attack_on_left_roc_on": "{name}，{name_2}：攻击 {scorer}，{size}。左：对数坐标的 ROC，截止于一个假阳性；带状区域"
    "以 {confidence} 的置信水平对所有点同时成立（{band}）。虚线：随机水平，找出的成员与假阳性一样多。右：同一结果表示为两类"
    "错误的权衡。{limit}",
    "curve.thin": "细线：{many}。",
    "curve.two_charts_of_attack_with": "攻击 {scorer} 的两幅图，AUC 为 {near}，{size}：{join}。{limit}",
    "curve.the_claimed_mechanism_itself": "所声明的机制本身（{source}）",
    "curve.blue_the_most_that_any": "蓝色：在 {join} 下任何攻击所能达到的最大值。",
    "curve.type_1_error_nonmember_called": "第一类错误（非成员判为成员）",
    "curve.type_2_error_member_missed": "第二类错误（漏掉成员）",
    "curve.false_positive_rate": "假阳性率",
    "curve.true_positive_rate": "真阳性率",
    "curve.limit_of_the_claims": "声明的界限",
    "curve.chance": "随机水平",
    "curve.measured": "实测",
    "curve.auc": "{scorer}：AUC {near}",
    "curve.scores_of_members_red_and": "{name}，{name_2}：成员（红）与非成员（灰，虚线）的分数。两条轮廓相距越远，模型泄露得"
    "越多。",
    "curve.with_a_smaller_auc_not": "AUC 较小的 {many}未绘出。",
    "curve.histograms_of_attack_scores_of": "成员与非成员攻击分数的直方图。",
    "curve.nonmembers": "非成员",
    "curve.members": "成员",
    "curve.auc_2": "{elide}，AUC {near}",
    "curve.score": "分数",
    "curve.share_of_scores": "分数占比",
    "curve.and_2": "与",
    "cover.the_evidence_cannot_be_used": "证据不可用：{reason}。既不能推出该声明，也不能推出其反面。",
    "cover.even_perfect_scores_would_have": "即使分数完美，能证明的也不超过 {epsilon}，低于所声明的值。本次审计不可能得出反"
    "驳，因此对该声明既不支持也不反对。",
    "cover.the_attacks_listed_here_prove": "此处所列攻击证明的少于所声明的。这不是对声明的证明：可能存在更强的攻击。",
    "cover.the_attacks_prove_more_than": "攻击证明的超出该声明所允许的范围。要么训练与所声明的不符，要么声明有误。",
    "cover.the_scores_refute_the_claimed": "分数反驳了所声明的 {family} 曲线：训练并非所声明的机制，或声明有误。下面的数字是"
    "该族内的 ε，并非对实际运行内容所证明的 ε。",
    "cover.open": "缺口",
    "cover.declared_by_the_owner": "由所有者声明",
    "cover.checked_by_this_audit": "由本次审计检验",
    "cover.what_the_claim_rests_on": "该声明的依据：{join_words}。",
    "cover.for_the_training_is_claimed": "对训练“{name}”声明了 {at_most}（{at_delta}，以{unit}为单位；来源：{source}）",
    "cover.this_audit_is_void": "{sentence}；本次审计作废：{reason}。",
    "cover.this_audit_computed_no_bound": "{sentence}；本次审计没有算出能反驳它的界。",
    "cover.the_attack_proves": "攻击 {attack} 证明 {proof}",
    "cover.could_have_proven_up_to": "最多本可证明 {epsilon}",
    "cover.so_the_claim_is_contradicted": "{sentence}；{evidence}，因此该声明被反驳。",
    "cover.and_so_this_audit_could": "{sentence}；{evidence}，{reach}，因此本次审计不可能反驳该声明。",
    "cover.and_the_claim_was_not": "{sentence}；{evidence}，{reach}；该声明未被反驳。",
    "cover.claimed_at_most": "声明的 ε，至多",
    "cover.per_source": "{at}，以{unit}为单位。来源：{source}",
    "cover.ceiling_of_that_game": "该博弈的上限",
    "cover.the_most_that_perfect_scores": "{at}。在该界所属博弈中，完美分数最多能证明的值{other_ceiling}",
    "cover.proven_at_least": "已证明的 ε，至少",
    "cover.no_bound_could_be_computed": "无法算出任何界",
    "cover.inside_a_family_at_least": "某一族内的 ε，至少",
    "cover.confidence_attack": "{at}，置信水平 {confidence}，{scope}。攻击：{attack}",
    "cover.not_proven_the_audit_is": "未证明：审计作废",
    "cover.inside": "在 {family} 族内",
    "cover.for_any_mechanism": "对任意机制",
    "cover.at_1_false_positives_the": "在假阳性率为 1 % 时，该博弈最强的攻击在“{name}”下找出 {sides} 的成员，在“{name_2}”下"
    "找出 {sides_2}。",
    "cover.without_protection": "没有保护时。",
    "cover.the_same_training_as_for": "同样的训练“{name}”没有任何声明，已证明其有泄露：{proof}（博弈 {name_2}，攻击 "
    "{attack}）。{comparison}",
    "cover.trained_and_audited_here": "在此训练并审计",
    "cover.a_trained_model_as_given": "所提供的已训练模型",
    "cover.attack_scores_as_given": "所提供的攻击分数",
    "cover.train": "训练",
    "cover.pool": "候选池",
    "cover.test": "测试",
    "cover.data": "数据",
    "cover.report": "报告",
    "cover.started_audit": "，始于 {start}，audit {version}",
    "cover.subject": "对象",
    "cover.system": "系统",
    "cover.owner": "所有者",
    "cover.purpose": "用途",
    "cover.release_context": "发布情境",
    "cover.not_declared": "未声明",
    "cover.auditor": "审计人",
    "cover.reviewer": "复核人",
    "cover.valid_until": "有效期至",
    "cover.next_audit": "下次审计",
    "cover.and_scope": "。{scope}：{epsilon}",
    "cover.and_ceiling": "；{scope}为 {ceiling}",
    "cover.data_of": "{name}（{source}）：{sizes}",
    "simulated.what_it_would_have_caught": "能够发现什么。",
    "simulated.what_this_game_would_have": "此博弈能够发现什么；未作模拟",
    "simulated.how_often_it_is_wrong": "出错的频率。",
    "simulated.the_simulated_error_rate_of": "此博弈各界的模拟错误率",
    "simulated.with_probability_the_bounds_of": "若某高斯机制的真实 ε 至少为下列数值，则最强攻击的界有 {chance} 的概率高于声"
    "明：{parts}。每个 ε 至少模拟 {draws} 次审计，该概率的误差至多为 ±{error} %。",
    "simulated.against": "针对 {at_most}",
    "simulated.for_the_proof_of_any": "为证明存在任何泄露",
    "simulated.by_nothing_at_all": "{estimator}{inside}（{over}）什么也发现不了",
    "simulated.by": "{estimator}{inside}（{over}）为 {up}",
    "simulated.of_simulated_audits_of_to": "{law}的 {count_2} 次模拟审计中有 {count} 次（该比率的 99 % 界限：{percent} 至 "
    "{percent_2}）",
    "simulated.that_is_more_often_than": "这比偶然所能解释的更频繁：不要依赖这些界。",
    "simulated.the_largest_bound_of_this": "使用相同的估计方法、攻击和分数数量，此博弈最大的界高于真值的次数为：{rates}。承诺"
    "的至多为 {limit}。上限较宽，因为它只依据其中少数实际搜索了界的审计，而非以真值检验的全部审计",
    "unclaimed.nobody_stated_an_so_nothing": "没有人声明 ε，因此没有可反驳的内容。这些数字说明攻击找出了多少。",
    "unclaimed.the_figures_say_how_well": "这些数字说明攻击能在多大程度上区分所给的成员与非成员。由此得不出 ε：成员身份由数"
    "据划分而非已记录的硬币决定，因此两部分的差别未必是泄露。",
    "unclaimed.void": "对“{name}”未证明任何 ε：其阴性对照的误报多于偶然所允许的。",
    "unclaimed.nothing_was_measured": "没有测量任何内容。",
    "unclaimed.members_found": "找出的成员",
    "unclaimed.no_rate_is_measured_well": "没有足够精确的比率",
    "unclaimed.members_found_at_fpr": "FPR 为 {target} 时找出的成员",
    "unclaimed.interval_to_attack": "区间 {low} 至 {high}；随机猜测可找出 {chance}。攻击：{attack}",
    "unclaimed.no_attack_was_run": "没有运行任何攻击",
    "unclaimed.interval_to_0_5_is": "区间 {down} 至 {up}；0.5 为随机水平。攻击：{scorer}",
    "unclaimed.a_split_of_the_data": "数据划分不能证明任何 ε",
    "unclaimed.no_bound_was_computed": "没有算出任何界",
    "unclaimed.proven": "已证明的 ε",
    "unclaimed.confidence": "{at_delta}，置信水平 {confidence}",
    "unclaimed.ceiling_attack": "{at}。上限 {down}。攻击：{attack}",
    "game_table.each_holds_on_its_own": "每个界单独以 {confidence} 的置信水平成立，因此所有界同时成立。",
    "guess_table.caption": "猜对的值。成功率、无发布时的猜对率与已证明的 ε 是三件事："
    "攻击可能不如不看发布的猜测准确，但证明得更多，因为下界按所猜的值被抽取的概率计算每次猜测。"
    "无发布：不看发布，只说每个秘密最可能的值，取平均；此次：这样做对了多少。"
    "当一次发布不依赖多个秘密时，成功率的区间有 {confidence} 的置信度，否则只描述此次运行。"
    "允许：最严的声明对这样的猜测所允许的最大值。"
    "暴露：取值个数的 log2 减去真实取值名次的 log2，按秘密平均；随机：名次均匀时的精确平均值。",
    "trigger_table.caption": "对标记的回答：在不属于任何训练集的记录上，模型给出该标记所对应回答的次数，分别在"
    "植入与未植入其记录时，按所有训练计数，括号内为比例（%）；另列在没有标记的测试记录上的准确率。"
    "允许：在未植入时的比例下，最严的声明按群组隐私对这么多条植入记录所允许的最大值。"
    "这些比例描述这些训练；它们所证明的见各下界。",
    "secret_table.caption": "攻击从文本后面的秘密得到什么，以其自身的单位计：植入的秘密与未植入的秘密的均值，"
    "以及达到某一水平的个数。"
    "被整个提取、且由 k 条训练文本所含的秘密是 k-eidetic 的；在 n 次采样中出现的概率不低于 p 的是 (n, p)-可发现的。"
    "外推的暴露依赖拟合的分布，是估计值。这些是成功率；所证明的见各下界。",
    "secret_table.quantity": "单位",
    "secret_table.texts": "文本 k",
    "secret_table.members": "均值，植入",
    "secret_table.nonmembers": "均值，未植入",
    "secret_table.by_chance": "随机，至多",
    "secret_table.levels": "不低于该水平：植入，未植入",
    "secret_table.level": "{level}：{members}，{nonmembers}",
    "trigger_table.records": "记录",
    "trigger_table.with_records": "植入",
    "trigger_table.without_records": "未植入",
    "trigger_table.accuracy": "无标记准确率",
    "party.title": "谁能得知什么",
    "party.lead": "同一次训练对不同的观察者并不相同。下面对每次训练和每一方列出：对该方所声明的 ε、"
    "本次审计的攻击从其所见证明的 ε，以及完美分数最多能证明的值。一次训练的各方看到的是同一批训练好的模型。",
    "party.central": "服务器所加的噪声不能使任何人对服务器得到保护：谁把更新相加，谁就看到加噪之前的和，"
    "所以那里没有声明任何 ε，声明只针对仅看到所发布模型的人。",
    "party.sum": "仅有保密求和不是差分隐私：它把单个更新藏在和里，而没有噪声的和仍会暴露一个客户端。",
    "party.dropout": "当和的噪声由各客户端各加一份时，若有比例 p 的客户端掉线，噪声乘数只剩 "
    "√(1\u00a0−\u00a0p) 倍，声明必须按此计算。",
    "party.final": "只看到最终模型的人，其所声明的保护并不比看到每次发布的模型的人更强；"
    "若其所证明的更少，那是攻击的弱点，不是保证。",
    "party.unit": "关于客户端的声明涵盖其所持有和给出的一切。其中一条记录是另一种单位："
    "改变它可能使客户端的整个更新反向，其代价是客户端不在时距离的两倍。",
    "party_table.caption": "每次训练与每一方（δ = {power}）：所声明的 ε、所证明的 ε 及其博弈的上限、"
    "某一机制族内的同样数值，以及拟合两个正态律的一次性估计；该估计不是界，ε 小时偏高。",
    "party_table.unit": "单位",
    "party_table.sees": "所见",
    "party_table.estimate": "估计",
    "party_figure.caption": "谁能得知什么（δ = {power}）：每行为一次训练及其单位，每列为一方。"
    "红色：该方的攻击所证明的 ε（浅色：仅在某一机制族内）。蓝色：对该方最严格的声明。"
    "灰色：上限，即完美分数最多能证明的值（箭头：超出坐标轴）。",
    "party_figure.void": "作废 {epsilon}",
    "party_figure.proven": "已证明 {epsilon}",
    "game_table.in_family": "族内 {epsilon}",
    "party_figure.inside": "族内 {epsilon}",
    "party_figure.void_inside": "作废，族内 {epsilon}",
    "guess_table.right": "猜对",
    "guess_table.success": "成功率 %",
    "guess_table.interval": "区间 %",
    "guess_table.baseline": "无发布 %",
    "guess_table.imputed": "此次",
    "guess_table.allowed": "允许 %",
    "guess_table.exposure": "暴露（随机）",
    "guess_table.bits": "{exposure}（{by_chance}）bit",
    "game_table.attack": "攻击",
    "game_table.estimator": "估计方法",
    "game_table.ceiling": "上限",
    "game_table.confidence": "置信水平",
    "game_table.searched": "搜索数",
    "game_table.holds_for": "适用于",
    "game_table.assumes": "假设",
    "game_table.ended_on": "选定",
    "game_table.void": "作废的 ε",
    "game_table.proven_of_each_attack_and": "每种攻击与估计方法所证明的 ε，最大者用粗体。",
    "game_table.void_of_each_attack_and": "作废：本次审计的某项检查未通过，故下列数值均未被证明，"
    "仅为各攻击与估计方法按统计算得之值。",
    "game_table.searched_means": "搜索数：尝试了多少个阈值或猜测数；其数目在看到分数之前已定，代价已计入。{alone}",
    "game_table.estimates_without_a_guarantee_never": "没有保证的估计，从不用于检验声明。",
    "game_table.method": "方法",
    "game_table.why_it_is_no_bound": "为何不是界",
    "game_table.withheld": "不公布",
    "game_table.few_records": "涉及的记录过少",
    "game_table.not_resolved": "无法分辨",
    "game_table.finest_1_in": "最细：{count} 分之一",
    "game_table.to": "{rate} 至 {rate_2}",
    "game_table.of": "{count} / {count_2}",
    "game_table.interval": "区间",
    "game_table.false_positives": "假阳性",
    "game_table.allowed": "允许",
    "game_table.share_of_members_found_at": "在固定假阳性率下找出的成员比例。同一攻击的各区间以 {confidence} 的置信水平同时"
    "成立。随机猜测找出的成员比例等于 FPR。",
    "game_table.allowed_the_most_that_the": "允许：该声明留给任何攻击的最大值。",
    "game_table.to_2": "{down} 至 {up}",
    "game_table.area_under_the_roc_of": "每种攻击的 ROC 曲线下面积；二分之一为随机水平。对所有记录的平均不能说明最坏的记录。",
    "game_table.negative_control_the_same_statistics": "阴性对照：对重新抽取的、任何攻击都不可能知道的硬币做同样的统计。",
    "game_table.repetitions": "重复次数",
    "game_table.false_alarms": "误报",
    "game_table.result": "结果",
    "game_table.members_whose_scores_stand_out": "分数突出的成员（名称经密钥变换），以及分数不低于它的非成员数。",
    "game_table.record": "记录",
    "game_table.label": "标签",
    "game_table.score": "分数",
    "game_table.nonmembers_as_high": "不低于它的非成员",
    "game_table.rough": "粗略",
    "game_table.group": "群组",
    "game_table.members": "成员",
    "game_table.nonmembers": "非成员",
    "game_table.auc_over_models": "各模型的 AUC",
    "game_table.own_label": "自身标签",
    "game_table.rough_fewer_than_members_or": "粗略：成员或非成员少于 {SMALL_SIDE} 个。",
    "game_table.every_group_with_its_counts": "每个群组的计数及攻击在其中的 AUC（随机水平为 0.5）。在分数相互独立时，一列中"
    "的区间以 {percent} 的置信水平同时成立。",
    "game_table.over_models_mean_standard_deviation": "各模型：均值 ± 标准差，每个训练好的模型各充当一次目标。",
    "game_table.own_label_how_often_the": "自身标签：模型以记录所带标签（即使有误）作答的频率。{warning}",
    "game_table.any_mechanism": "任意机制",
    "game_table.only": "仅 {family}",
    "game_table.passed": "未超限",
    "cover.a_synthetic_table": "所给的合成数据表",
    "synthetic.question": "该合成数据表是否泄露其来源记录的信息？",
    "synthetic.beyond": "攻击对训练记录的成功率高于对照记录，且超出偶然：{risks}（{of} 项攻击中的 {some} 项）。",
    "synthetic.within": "{of} 项攻击中，没有一项对训练记录的成功率超出对照记录的幅度大于偶然。这只说明这些攻击未成功。",
    "synthetic.test": "若数据表与由哪些记录生成无关，检验是精确的：此时任何一项被判为超出偶然的概率至多为 "
    "{doubt}。检验超出偶然时，超出部分的区间仍可能低于 0，因为区间的要求更严。",
    "synthetic.singling out": "单独识别",
    "synthetic.linkability": "对接",
    "synthetic.inference": "推断",
    "synthetic.risk": "风险",
    "synthetic.attack": "列",
    "synthetic.training": "训练记录",
    "synthetic.control": "对照记录",
    "synthetic.guessing": "猜测",
    "synthetic.excess": "超出部分",
    "synthetic.p": "p",
    "synthetic.chance": "偶然",
    "synthetic.above": "超出",
    "synthetic.inside": "之内",
    "synthetic.caption": "每项攻击对训练记录与对照记录（生成数据表时未用）的成功率。超出部分：高于对照的成功率占对照"
    "所余部分的比例，各区间以置信水平 {confidence} 同时成立。",
    "synthetic.reading": "单独识别：只有一条合成记录满足的条件，也只有一条记录满足。对接：一条记录的两半最接近同一条"
    "合成记录。推断：其余各列最接近的合成记录具有该记录的值，数值相差不超过 5 %。与对照之差是数据表对自身记录泄露的"
    "内容；其余对任何相似的人都成立。",
    "synthetic.closest": "最近的记录",
    "synthetic.closest_proves_nothing": "到最近记录的距离只是描述，不能证明任何事：与所有训练记录都不接近的数据表仍"
    "可能泄露它们，多见的记录的副本也可能不泄露任何人。",
    "synthetic.copies": "与之相同的合成记录",
    "synthetic.distance": "到最近记录的距离中位数（各列均值）",
    "synthetic.no_epsilon": "不能得出 ε：没有硬币决定数据表由哪些记录生成，未成功的攻击也不给出任何上限。",
    "synthetic.split": "训练记录与对照记录须由随机划分来自同一人群。若二者因其他原因不同，超出部分显示的是该原因。",
    "synthetic.attacks": "单独识别的超出部分不给出区间，因为同一条记录可能满足许多条件；其检验不假设各条件独立。"
    "对生成器本身的攻击、选定记录的成员身份以及同一数据的其他数据表均不作说明。",
    "models.across_the_trained_models": "遍历训练好的模型",
    "models.references": "参考模型。",
    "models.weak_attack": "攻击偏弱。",
    "models.tested_for_each_of_the": "对 {count} 条记录逐一用二项分布尾概率检验，总体显著性水平 {percent}，视其分数对每个模"
    "型重新抽取；各模型共用参考模型，故为近似",
    "models.no_record_is_found_in": "没有记录在用其训练的模型中被找出的次数超出偶然（{test}）。",
    "models.in_report_json": "{many}见 report.json。",
    "models.once_the_target_all_others": "{targets_text}各充当一次目标，其余均为其参考模型：各目标的均值 ± 样本标准差 [最小"
    ", 最大]。各目标共用参考模型，故这不是置信区间。",
    "models.thresholds_of_set_on_nonmembers": "{leading} 的阈值在其他模型的非成员上设定，再用于每个目标，取各目标的均值。精"
    "确率：若全部候选中有 {prior} 为成员，被判为成员者中成员的比例。",
    "models.intended_fpr": "预定 FPR",
    "models.realised_fpr_chance": "实际 FPR（随机水平）",
    "models.precision": "精确率",
    "models.records_that_stand_out_over": "在所有用其训练的模型中突出的记录（名称经密钥变换）。FPR：分数不低于它的非成员比例"
    "的中位数。找出：在假阳性率为 {percent} 时，该记录在这些模型中被找出的比例；随机水平同为 {percent}。{remark}",
    "models.found": "找出",
    "models.models": "模型数",
    "models.below": "低于 {percent}",
    "models.auc_of_inside_each_group": "{leading} 在各群组内对各目标的 AUC。",
    "models.column": "列",
    "models.on_several_records_of_one": "{leading} 同时针对一个单位的多条记录（全部用于训练或全部未用），分数取平均；对各目"
    "标。硬币逐条记录决定，因此不能说明以单位计的保证。",
    "models.unit": "单位",
    "models.units": "单位数",
    "models.records_a_unit": "每单位记录数",
    "models.usage": "数据集的使用比例。",
    "models.usage_share": "根据 {scorer} 的判定及其在其他模型上的比率，第一个模型使用了 {share} 的受审计记录进行训练（"
    "置信水平 {confidence} 下为 {lower} 至 {upper}）；实际为 {truth}。",
    "models.usage_untold": "{scorer} 将其他模型的成员与非成员判为成员的频率相同，因此无法说明第一个模型使用了多少受审计记录。",
    "models.usage_error": "{models}各充当一次目标，估计平均偏差 {error}，区间包含真值的占 {covered}。",
    "models.usage_assumes": "区间以一个模型为一次观测，仅对训练方式与其他模型相同的模型成立。",
    "models.each_of": "{many}",
    "models.each_of_of_evenly_spread": "均匀分布的 {count} 个（共 {many}）",
    "models.no_record_was_found_at": "在假阳性率为 {percent} 时，没有记录在两个都用其训练的模型中被找出。",
    "models.the_lists_of_records_that": "{leading} 在假阳性率为 {percent} 时于两个模型中找出的记录名单（限于两者都用其训练的"
    "记录）重合 {percent_2}（Jaccard，各对的均值）；同样长度的随机名单重合 {percent_3}。",
    "table.of": "{down} / {down_2}",
    "table.void": "作废：{bound}",
    "table.of_2": "{down} / {down_2}（{family}）",
    "table.every_training_and_game_at": "δ = {power} 时的每个训练与博弈。声明向上取整；每个界后为其所属博弈的上限，即完美分"
    "数在其中最多能证明的值，两者均向下取整。",
    "table.game": "博弈",
    "table.claimed": "声明的 ε",
    "table.inside_a_family": "某一族内",
    "table.tpr_at_1_fpr_chance": "FPR 为 1 % 时的 TPR（随机水平 1 %）",
    "table.per": "{source}，以{unit}为单位",
    "table.any_with_this": "任何具有此 (ε, δ) 的机制",
    "table.source": "来源",
    "table.asserted_mechanism": "所称机制",
    "table.remarks": "备注",
    "table.verdict": "判定",
    "table.what_is_claimed_for_each": "对 {name} 的声明，每个数字附来源。机制族内的界只能反驳主张该族的声明。",
    "table.sample_rate": "抽样率",
    "table.per_and_step": "每步每个{record} {significant}",
    "table.mechanism": "机制",
    "table.dp_sgd_poisson_batches_clipped": "DP-SGD：泊松批次、裁剪梯度、在和上加高斯噪声",
    "table.noise_multiplier": "噪声乘子",
    "table.times_the_clip_norm": "裁剪范数的 {significant} 倍",
    "table.clip_norm": "裁剪范数",
    "table.l2_over_all_parameters": "{significant}（l2，覆盖全部参数）",
    "table.steps": "步数",
    "table.plain_stochastic_gradient_training_no": "普通随机梯度训练：不裁剪、不加噪、无保证",
    "table.what_does_to_the_data": "{name} 对数据的处理",
    "table.the_accountants_were_given_these": "；各会计方法使用的正是这些数值。",
    "table.parameter": "参数",
    "table.what_the_claim_rests_on": "该声明的依据。",
    "table.what_was_checked": "已检验的内容。",
    "table.checked_this_run_tested_it": "已检验：由本次运行检验。仅声明：由所有者陈述。缺口：已知不成立或未涵盖。未成立：经"
    "检验不符。",
    "table.status": "状态",
    "table.budget_of_epsilon_claimed_after": "{name} 的隐私预算：经过若干步后声明的 ε，向上取整。",
    "table.budgets": "隐私预算：经过若干步后声明的 ε，向上取整。",
    "table.accountant": "会计方法",
    "table.steps_2": "{count} 步",
    "table.one_model": "单个模型",
    "table.mean_over_models_and_sample": "{utility_basis}各模型的均值与样本标准差。",
    "table.metric": "指标",
    "table.mean": "均值",
    "table.deviation": "标准差",
    "table.classes_of_attack_what_was": "攻击类别。未运行者也列出，因为本报告对其不作任何说明。",
    "table.class": "类别",
    "table.what_was_done": "所做工作",
    "table.met": "满足",
    "table.not_met": "不满足",
    "table.the_release_policy_as_the": "配置中写明的发布策略。",
    "table.gate": "门限",
    "table.limit": "限值",
    "settings.the_settings_that_were_given": "已给出的设置。其余均为默认值；PDF 附有完整配置。",
    "settings.part": "部分",
    "settings.settings": "设置",
    "evidence.stopping": "提前停止。",
    "evidence.up_to_were_planned_and": "计划至多 {many}，并在首次证明某项声明不成立时结束训练。",
    "evidence.nothing_is_claimed_that_these": "{plan}没有这些估计方法能够反驳的声明，因此全部完成训练。",
    "evidence.no_proof_within_the_evidence": "{plan}在 {many}内没有证明。反对 {at_most} 的证据最高为 {number}，所需为 "
    "{number_2}。",
    "evidence.were_trained_and_spared": "完成 {many}，节省 {count} 次",
    "evidence.all_runs_were_trained": "全部完成训练",
    "evidence.was_refuted_after_the_bounds": "{plan}{join_words} 在 {many}后被反驳；{outcome}。这些界在任何时刻同时成立，因"
    "此在此停止不增加代价。",
    "evidence.ends_at": "{label} 止于 {number}",
    "evidence.refuted_after": "，在 {many}后被反驳",
    "evidence.evidence_against_each_claim_over": "{name}，{name_2}：随训练模型数增加，反对每项声明的证据。红色：e 值，即从 "
    "1 开始、在声明为真时平均不会获利的赌注所得的财富。蓝色：在任何时刻达到即以 {level} 的置信水平反驳声明的值（"
    "{thresholds}）。",
    "evidence.thin_each_of_attacks_by": "细线：{count} 种攻击各自的值，e 值为其平均。",
    "evidence.family_only_inside_the_family": "（族）：仅在声明所主张的族内。",
    "evidence.line_chart_over_logarithmic_axis": "{many}上的折线图，对数坐标，阈值 {thresholds}。{join}。",
    "evidence.family": "（族）",
    "evidence.target_models_trained": "已训练的目标模型数",
    "evidence.grey_spared": "（灰色：节省）",
    "costs.title": "隐私代价",
    "costs.of": "按多种会计方法计算的 {names} 的代价",
    "costs.about": "{mechanism}；相邻数据集：{adjacency}{group}；{at_delta} {truth}。",
    "costs.group": "，{size} 条记录同时变化",
    "costs.truth": "真实的 ε 介于 {low} 与 {high} 之间",
    "costs.bracket": "真值是机制本身的 ε，而非某个模型的。凡给出两端之处，两端均经证明："
    "低于它们的上界是错误的，高于它们的上界成立，旁边的倍数说明其宽松程度。上界向上取整，下界向下取整。",
    "costs.claims": "各会计方法的声明。",
    "costs.states_itself": "自称",
    "costs.times_the_truth": "为真值的倍数",
    "costs.note": "备注",
    "costs.what_if": "假如：噪声、采样率或步数改变时的 ε（以机制自身值的倍数表示）。",
    "costs.changes": "改变",
    "costs.other_deltas": "其他 δ 下的 ε。",
    "costs.at_least": "真值至少",
    "costs.at_most": "真值至多",
    "costs.curve": "隐私曲线。灰带：经证明的真值区间。蓝色：各会计方法的声明。",
    "costs.curve_alt": "ε 随 δ 变化的折线图，δ 从 {low} 到 {high}：经证明的区间为灰带，另有 {lines} 条线：{names}。",
    "costs.band": "真实的 ε",
    "ledger.privacy_budget_of_these_data": "这些数据在 {many}中的隐私预算。蓝色：截至当时所有发布合计声明的代价。灰线：预算。",
    "ledger.step_chart_over_releases_at": "{count} 次发布的阶梯图，δ 为 {power}：已用 {up_2} 中的 {up}。",
    "ledger.budget": "预算 {up}",
    "ledger.the_budget_is_exceeded": "预算已超支。",
    "ledger.all_releases_about_these_data": "关于这些数据的所有发布合计声明的代价为 {epsilon}（{at_delta}；{adjacency}），预"
    "算为 {up}；尚余 {down}。{over}它们作为机制复合，后者可在看到前者之后选定（{accountant}）。",
    "ledger.when": "时间",
    "ledger.release": "发布",
    "ledger.what": "内容",
    "ledger.so_far": "累计 ε",
    "ledger.not_recorded": "未记录",
    "ledger.releases_in_their_order_is": "按顺序列出的发布；ε 为截至该次的合计代价，向上取整。",
    "ledger.budget_2": "预算。",
    "index.title": "隐私审计",
    "index.read": "最新者在前。已证明的 ε 对任意机制成立；其上限为同一博弈中完美分数最多能证明的值。",
    "index.caption": "本文件夹中每次审计的每个训练。",
    "index.date": "开始",
    "index.subject": "审计",
    "index.training": "训练",
    "index.claimed": "声明的 ε",
    "index.proven": "已证明的 ε",
    "index.ceiling": "上限",
    "index.verdict": "判定",
    "index.policy": "策略",
    "index.release": "发布情境",
    "index.files": "文件",
    "index.not_read": "无法作为报告读取的文件；上表不含它们。",
    "index.reason": "原因",
    "index.trend": "{title}，{name}：{audits}中声明的、已证明的 ε 与上限。",
}

RECORDED = {
    "noise x{factor}": "噪声 x{factor}",
    "rate x{factor}": "采样率 x{factor}",
    "steps x{factor}": "步数 x{factor}",
    "simulated level, concave curves": "模拟所得水平，似然比单调的曲线",
    "simulated level, concave curves, for all {attacks} attacks at once": (
        "模拟所得水平，似然比单调的曲线，对全部 {attacks} 种攻击同时成立"
    ),
    "simulated level, concave curves, at any of {looks} looks": "模拟所得水平，似然比单调的曲线，{looks} 次查看中的任何一次",
    "simulated level, concave curves, for all {attacks} attacks at once, at any of {looks} looks": (
        "模拟所得水平，似然比单调的曲线，对全部 {attacks} 种攻击同时成立，{looks} 次查看中的任何一次"
    ),
    "any curve, equal local levels of both sides": "任意曲线，两侧局部水平相等",
    "the true value is at least {bound}": "真值至少为 {bound}",
    "Membership inference, black box": "成员推断，黑盒",
    "Membership inference, white box": "成员推断，白盒",
    "Membership inference": "成员推断",
    "Attribute inference": "属性推断",
    "what is guessed is about a group of records: a claim for one record leaves it what it leaves the whole group": "所猜的是"
    "一组记录的属性：对单条记录的声明只按整个群组加以限制",
    "Property inference": "训练集属性推断",
    "Extraction of secrets from texts": "从文本中提取秘密",
    "Poisoning, backdoor": "植入记录与后门",
    "Model inversion, reconstruction": "模型反演与重建",
    "Exfiltration": "数据外泄",
    "Regurgitation": "训练数据复述",
    "Inference from the spread of outputs": "由输出离散程度推断",
    "{canaries} canaries over {runs} training run, scorers {scorers}": "{canaries} 个金丝雀样本，{runs} 次训练，评分方法 "
    "{scorers}",
    "{canaries} canaries over {runs} training runs, scorers {scorers}": "{canaries} 个金丝雀样本，{runs} 次训练，评分方法 "
    "{scorers}",
    "{canaries} secrets over {runs} training run, scorers {scorers}": "{canaries} 个秘密，{runs} 次训练，评分方法 {scorers}",
    "{canaries} secrets over {runs} training runs, scorers {scorers}": "{canaries} 个秘密，{runs} 次训练，评分方法 {scorers}",
    "{records} records, scorers {scorers}": "{records} 条记录，评分方法 {scorers}",
    "{scores} scores made elsewhere": "{scores} 个由他处得到的分数",
    "none": "无",
    "outside the scope of a model test": "超出模型测试的范围",
    "outside a test of the model": "超出模型测试的范围",
    "a classifier does not emit training records": "分类器不输出训练记录",
    "held-out records and crafted gradients, {coins} coins each": "留出记录与构造梯度，各 {coins} 枚硬币",
    "arrays in memory": "内存中的数组",
    "{source}; divided by {factor}": "{source}；除以 {factor}",
    "UCI optical recognition of handwritten digits (test part), embedded in scikit-learn": "UCI 手写数字光学识别（测试部分）"
    "，内置于 scikit-learn",
    "members (train) and nonmembers (pool) as given": "所给的成员（训练）与非成员（候选池）",
    "scikit-learn, embedded": "scikit-learn，内置",
    "records given": "所给记录",
    "withheld in this edition": "本版不列",
    "some groups have no canary, so nothing is said of their records": "部分群组没有任何受审记录，故对其记录不作任何说明",
    "Audit of a trained model": "已训练模型的审计",
    "Audit of attack scores": "攻击分数的审计",
    "{title} (external edition)": "{title}（外部版）",
    "{estimator} (inside {family})": "{estimator}（{family} 族内）",
    "Steps": "步数",
    "Sampling rate": "抽样率",
    "Sampling law": "抽样规律",
    "Sampling": "抽样",
    "Training": "训练",
    "Noise": "噪声",
    "Clipping": "裁剪",
    "Clipping, recomputed": "裁剪（重新计算）",
    "Gradients, recomputed": "梯度（重新计算）",
    "Unit of privacy": "隐私单位",
    "Neighbouring data sets": "相邻数据集",
    "Adjacency": "相邻关系",
    "Accountants compared": "会计方法比较",
    "What is released": "发布的内容",
    "What was run": "运行的内容",
    "Floating-point noise": "浮点噪声",
    "Use of the data outside the claim": "声明之外对数据的使用",
    "Membership decided by": "成员身份的决定方式",
    "Blind classifier on the inputs": "仅看输入的盲分类器",
    "Second accountant": "第二种会计方法",
    "Reference models": "参考模型",
    "Tuning on the training data": "在训练数据上调参",
    "How the scores came about": "分数的由来",
    "Attacks left out": "省去的攻击",
    "Batches seen": "所见批次",
    "{taken} taken, {accounted} accounted": "实际 {taken}，记账 {accounted}",
    "{realised} realised, {accounted} accounted": "实际 {realised}，记账 {accounted}",
    "{law}; realised variance {ratio} of the law's": "{law}；实际方差为该规律的 {ratio} 倍",
    "Poisson": "泊松",
    "all {models} models stayed finite": "全部 {models} 个模型保持有限",
    "all {models} models of both mechanisms stayed finite": "两种机制的全部 {models} 个模型保持有限",
    "noise multiplier {low} to {high} realised, {accounted} accounted": "噪声乘子实际为 {low} 至 {high}，记账 {accounted}",
    "noise multiplier {low} realised, {accounted} accounted": "噪声乘子实际为 {low}，记账 {accounted}",
    "largest clipped gradient {length} of the clip norm": "最大的裁剪后梯度为裁剪范数的 {length} 倍",
    (
        "clipped gradients of {examples} examples recomputed one at a time by plain autograd; largest difference below "
        "{difference} of the clip norm"
    ): "用普通自动微分逐个重新计算了 {examples} 个样本的裁剪梯度；最大差异低于裁剪范数的 {difference}",
    (
        "summed gradients of {models} models recomputed by plain autograd; largest difference below {difference} of their norm"
    ): "用普通自动微分重新计算了 {models} 个模型的梯度和；最大差异低于其范数的 {difference}",
    "one training {unit}": "一个训练{unit}",
    "example": "样本",
    "client": "客户端",
    "user": "用户",
    "record": "记录",
    "add or remove one record": "增加或删除一条记录",
    "replace one record by another": "以另一条记录替换一条记录",
    "replace one record by an empty one": "以空记录替换一条记录",
    "zero out one record": "将一条记录置零",
    "zero out one {unit}": "将一个{unit}置零",
    "add or remove one {unit}": "增加或删除一个{unit}",
    "{relation}, in claim, sampling and game": "{relation}，声明、抽样与博弈一致",
    "{count} accountants state {low} to {high}": "{count} 种会计方法给出 {low} 至 {high}",
    "none; the claim stands on one figure": "无；声明只依据一个数字",
    "every noisy step (the strongest release that the claim covers)": "每个加噪步骤（该声明涵盖的最强发布）",
    "attacks on it are not covered": "不涵盖针对它的攻击",
    "none was declared in the config": "配置中没有声明",
    "not declared, cost not in epsilon": "未声明，其代价不在 ε 内",
    "model after each round": "每轮之后的模型",
    "final weights": "最终权重",
    "outputs of the final model": "最终模型的输出",
    "every client in every step with probability {probability}": "每个客户端在每步中的概率为 {probability}",
    "every record in every step with probability {probability}": "每条记录在每步中的概率为 {probability}",
    "every update of every client": "每个客户端的每次更新",
    "two normal laws fitted to the scores; no confidence, and biased upward where epsilon is small": "对分数拟合两个正态律；"
    "没有置信水平，ε 小时偏高",
    "sum of the updates of each round": "每轮更新之和",
    "update of every client": "每个客户端的更新",
    (
        "{coins} coins from the recorded file; their counts agree with the files, records carry no index"
    ): "来自所记录文件的 {coins} 枚硬币；其计数与文件一致，记录不带序号",
    "{coins} coins from the recorded file; each record agrees with its coin": "来自所记录文件的 {coins} 枚硬币；每条记录与其"
    "硬币一致",
    "{coins} coins from the given seed; each record agrees with its coin": "来自给定种子的 {coins} 枚硬币；每条记录与其硬币"
    "一致",
    "{coins} coins from the seed {seed}; each record agrees with its coin": "来自种子 {seed} 的 {coins} 枚硬币；每条记录与其"
    "硬币一致",
    "{coins} coins from the seed {seed}": "来自种子 {seed} 的 {coins} 枚硬币",
    "recorded coins, one for each record": "已记录的硬币，每条记录一枚",
    "AUC {auc}, p = {p}, tested at {level}: inputs alone do not tell members from nonmembers": "AUC {auc}，p = {p}，显著性水"
    "平 {level}：仅凭输入不能区分成员与非成员",
    "AUC {auc}, p = {p}, tested at {level}: inputs alone tell members from nonmembers": "AUC {auc}，p = {p}，显著性水平 "
    "{level}：仅凭输入即能区分成员与非成员",
    "not run: it needs inputs and at least {records} records on each side": "未运行：需要输入，且每侧至少 {records} 条记录",
    "a data split, not recorded coins: no epsilon follows": "数据划分，而非已记录的硬币：得不出 ε",
    "independent coins": "相互独立的硬币",
    (
        "{models} models brought; that their records were drawn without regard to the target's is taken on trust"
    ): "自带 {models} 个模型；其记录的抽取与目标无关一事未经检验",
    (
        "{models} models brought; their records do not follow the target's coins; that they know nothing else of them is "
        "taken on trust"
    ): "自带 {models} 个模型；其记录并不随目标的硬币而定；此外与硬币无关一事未经检验",
    (
        "{models} models brought; their records follow the target's coins (by chance in fewer than {share} of audits)"
    ): "自带 {models} 个模型；其记录随目标的硬币而定（偶然如此的审计少于 {share}）",
    (
        "The references were trained on records that follow the target's coins, as where every record is in exactly half of "
        "all models: attacks that compare could tell the coins from the references alone, so no epsilon follows. Train "
        "references on coins of their own, or leave them out for an epsilon from the target alone"
    ): "参考模型的训练记录随目标的硬币而定，例如每条记录都在一半的模型中：进行比较的攻击仅凭参考模型即可得知硬币，"
    "因此得不出 ε。请让参考模型使用各自的硬币，或省去参考模型，仅由目标得出 ε",
    (
        "the references' memberships follow the target's coins, so comparisons tell coins without the target"
    ): "参考模型的成员关系随目标的硬币而定，因此不凭目标即可比较出硬币",
    "game {game}: {note}": "博弈 {game}：{note}",
    "'{attack}' was left out: {reason}": "“{attack}”被省去：{reason}",
    "'{attack}' took {choice}: {reason}": "“{attack}”采用 {choice}：{reason}",
    "two or three references give each side a mean but no spread": "两三个参考模型只能给出每侧的均值，不能给出离散程度",
    "no reference model of attack '{attack}' trained on any canary": "攻击“{attack}”没有参考模型用任何金丝雀样本训练",
    "set online: false, or let references draw coins": "设 online: false，或让参考模型抽取硬币",
    "{left} of {models} models diverged ({names})": "{models} 个模型中有 {left} 个发散（{names}）",
    "their outputs count as the same for every record": "其输出对每条记录视为相同",
    "all {runs} target runs diverged": "全部 {runs} 次目标训练均发散",
    "lower the learning rate or the noise": "请降低学习率或噪声",
    "{finite} of {models} reference models stayed finite and it needs {needed}": "{models} 个参考模型中只有 {finite} 个保持"
    "有限，而它需要 {needed} 个",
    "nothing was measured: models were trained by the user's own function": "没有测量：模型由用户自己的函数训练",
    "best order {order}; {count} order(s) the library could not evaluate were left out": "最佳阶 {order}；省去该库无法计算的"
    " {count} 个阶",
    "best order {order}": "最佳阶 {order}",
    "declared": "声明",
    "declared ({name})": "声明（{name}）",
    "{accountant} RDP, classic conversion": "{accountant} RDP（经典换算）",
    "{accountant} Renyi, improved conversion": "{accountant} Rényi（改进换算）",
    "{right} of {guesses} guesses right": "{guesses} 次猜测中 {right} 次正确",
    "{right} of {guesses} guesses of {named} values right": "每次 {named} 个取值的 {guesses} 次猜测中 {right} 次正确",
    "{guesses} guesses, {right} right": "{guesses} 次猜测，{right} 次正确",
    "AUC over all pairs": "所有配对的 AUC",
    "likelihood ratios of the claimed curve": "所声明曲线的似然比",
    "threshold at {share} % of the nonmembers": "取非成员 {share} % 处的阈值",
    "noise multiplier {value}": "噪声乘子 {value}",
    "a claim was refuted after {runs} runs": "某项声明在 {runs} 次训练后被反驳",
    "a claim was refuted after {runs} runs; {trained} of at most {planned} were trained": "某项声明在 {runs} 次训练后被反驳"
    "；至多 {planned} 次中完成 {trained} 次",
    "a point estimate from the ROC; it has no confidence": "ROC 上的点估计；没有置信水平",
    "equal local levels": "等局部水平",
    "equal local levels, at any of {looks} looks": "等局部水平，{looks} 次查看中的任何一次",
    "Dvoretzky-Kiefer-Wolfowitz": "Dvoretzky-Kiefer-Wolfowitz",
    "nothing leaks": "没有泄露",
    "randomised response": "随机化响应",
    "Gaussian": "高斯机制",
    "DP-SGD as claimed": "所声明的 DP-SGD",
    "references resemble the target; {detail}": "参考模型与目标相似；{detail}",
    (
        "references do not resemble the target: a weak result speaks of the attack, not of the model; {detail}"
    ): "参考模型与目标不相似：弱的结果说明的是攻击而非模型；{detail}",
    "references do not resemble the target: a weak result speaks of the attack, not of the model": "参考模型与目标不相似：弱"
    "的结果说明的是攻击而非模型",
    (
        "own label given to members and nonmembers {members} and {nonmembers} (references {one} and {two}), distance between "
        "loss distributions {distance} (among references up to {most})"
    ): (
        "成员与非成员得到自身标签的比例为 {members} 和 {nonmembers}（参考模型 {one} 和 {two}），损失分布间的距离 {distance}（"
        "参考模型之间至多 {most}）"
    ),
    (
        "accuracy on members and non-members {members} and {nonmembers} (references {one} and {two}), distance between loss "
        "distributions {distance} (among references up to {most})"
    ): (
        "成员与非成员的准确率为 {members} 和 {nonmembers}（参考模型 {one} 和 {two}），损失分布间的距离 {distance}（参考模型之"
        "间至多 {most}）"
    ),
    "records held out of {data} with a wrong label": "从 {data} 留出、标签错误的记录",
    "random records held out of {data}": "从 {data} 随机留出的记录",
    "crafted unit gradients, each along one parameter of its own": "构造的单位梯度，各沿一个自己的参数",
    "crafted gradients, one coordinate each": "构造的梯度，各占一个坐标",
    "canary clients whose whole update is a signed cosine, orthogonal to all others": "整个更新为带符号余弦且与其他均正交的"
    "金丝雀客户端",
    "records given as members and nonmembers": "作为成员与非成员给出的记录",
    "scores given": "所给分数",
    "held-out records": "留出记录",
    "membership was decided by a data split, so no epsilon follows": "成员身份由数据划分决定，因此得不出 ε",
    (
        "membership was decided by a data split, not by recorded coins, so no epsilon can be proven or refuted"
    ): "成员身份由数据划分而非已记录的硬币决定，因此既不能证明也不能反驳任何 ε",
    (
        "Membership was decided by a data split, not by recorded coins: there is no randomness to reason from, so no epsilon "
        "follows. The figures below describe this attack on these records"
    ): "成员身份由数据划分而非已记录的硬币决定：没有可供推断的随机性，因此得不出 ε。下面的数字描述这一攻击在这些记录上的表现",
    "class {label}": "类别 {label}",
    "privacy-loss distribution of the claimed noise, sampling and steps": "所声明噪声、抽样与步数的隐私损失分布",
    "privacy-loss distribution of the claimed noise": "所声明噪声的隐私损失分布",
    "training without noise ({steps} steps, about one {unit})": "不加噪训练（{steps} 步，针对一个{unit}）",
    "DP-SGD (noise {noise}, rate {rate}, {steps} steps, about one {unit})": "DP-SGD（噪声 {noise}，抽样率 {rate}，{steps} 步"
    "，针对一个{unit}）",
    "DP-SGD (noise {noise}, rate {rate}, {steps} steps)": "DP-SGD（噪声 {noise}，抽样率 {rate}，{steps} 步）",
    "{first}; then {next}": "{first}；然后 {next}",
    "accuracy": "准确率",
    "macro-F1": "宏平均 F1",
    "macro F1": "宏平均 F1",
    "accuracy on members": "成员准确率",
    "loss on members": "成员损失",
    "accuracy on nonmembers": "非成员准确率",
    "loss on nonmembers": "非成员损失",
    "no bound lies above the claim; perfect scores would have proved up to {ceiling} inside the family '{family}'": (
        "没有界高于声明；在机制族 '{family}' 内，完美分数最多能证明 {ceiling}"
    ),
    (
        "even perfect scores would have proved at most {ceiling} inside the family '{family}', so this audit could not have "
        "refuted the claim"
    ): "在机制族 '{family}' 内，即使完美分数也至多证明 {ceiling}，因此本次审计不可能反驳该声明",
    "no bound lies above the claim; perfect scores would have proved up to {ceiling}": "没有界高于声明；完美分数最多能证明 "
    "{ceiling}",
    (
        "even perfect scores would have proved at most {ceiling}, so this audit could not have refuted the claim"
    ): "即使完美分数也至多证明 {ceiling}，因此本次审计不可能反驳该声明",
    (
        "{estimator} proves epsilon of at least {epsilon} at confidence {confidence}, above the claimed {claim}"
    ): "{estimator} 以 {confidence} 的置信水平证明 ε 至少为 {epsilon}，高于所声明的 {claim}",
    "{name} (hidden [{hidden}]), {parameters} parameters": "{name}（隐藏层 [{hidden}]），{parameters} 个参数",
    "{name} ({options}), {parameters} parameters": "{name}（{options}），{parameters} 个参数",
    "{name}, hidden layers {layers}": "{name}，隐藏层 {layers}",
    "a model of the owner's, {rest}": "所有者自己的模型，{rest}",
    "{parameters} parameters": "{parameters} 个参数",
    "trained elsewhere, {outputs}": "在他处训练，{outputs}",
    "predictions made elsewhere, {outputs}": "在他处作出的预测，{outputs}",
    "{name} ({format}, sha256 {digest}), {outputs}": "{name}（{format}，sha256 {digest}），{outputs}",
    "{count} outputs": "{count} 个输出",
    "losses only": "仅有损失值",
    "not given": "未给出",
    (
        "Hyperparameters may have been tuned on the training data; that cost is not in the claimed epsilon"
    ): "超参数可能在训练数据上调过；其代价不在所声明的 ε 内",
    "Attribute inference and reconstruction were not run, so this report says nothing about them": "没有运行属性推断与重建，"
    "因此本报告对其不作任何说明",
    "{count} records were left out because they occur on both sides": "有 {count} 条记录因两侧都出现而被省去",
    "{training}, game {game}: {note}": "{training}，博弈 {game}：{note}",
    "the attack is weak, because {reason}": "攻击偏弱，原因是{reason}",
    (
        "{training}: noise at the server protects no client from the server: whoever receives updates or their "
        "sums sees them "
        "without noise, and no epsilon is claimed there; the claim is about those who see released models alone"
    ): (
        "{training}：服务器处的噪声不能使任何客户端免受服务器观察：接收更新或其和的一方看到的是无噪声的内容，那里没有声明 ε；"
        "该声明只针对仅能看到所发布模型的一方"
    ),
    (
        "{training}: each client adds noise to its own update, so the claim about single updates holds before "
        "the server too; "
        "in the sum the noise of all clients adds up, and who sees sums alone learns less"
    ): (
        "{training}：每个客户端在自己的更新中加噪，因此关于单个更新的声明对服务器也成立；在和中所有客户端的噪声相加，"
        "只看到和的一"
        "方所知更少"
    ),
    (
        "{training}: the clients share the noise of the sum: the claim about sums rests on secure aggregation, a single "
        "update carries one share only, and where a share p of the clients drops out the noise shrinks by the root of 1 - p"
    ): (
        "{training}：各客户端分担和的噪声：关于和的声明依赖于安全聚合，单个更新只带有其中一份；若有比例 p 的客户端退出，"
        "噪声缩小为原来的 1 - p 的平方根倍"
    ),
    (
        "{training}: each client trains by DP-SGD on its own records, so the claim about one record holds before the server "
        "too; a client that holds many is protected by group privacy alone"
    ): (
        "{training}：每个客户端在自己的记录上以 DP-SGD 训练，因此关于一条记录的声明对服务器也成立；"
        "持有多条记录的客户端只受群组隐私保护"
    ),
    (
        "{training}: no noise is added, so no client is protected from anybody; secure aggregation alone is not "
        "differential privacy"
    ): "{training}：没有加噪，因此任何客户端对任何一方都不受保护；仅有安全聚合并不是差分隐私",
    (
        "{remark}; claims are about one record of a client; a record may turn its client's whole update, so "
        "they count on half "
        "of the noise; several records of one client move no more than its update, and are claimed alike"
    ): (
        "{remark}；声明针对客户端的一条记录；一条记录可以改变其客户端的整个更新，因此这些声明只按一半的噪声计算；"
        "同一客户端的多条记录所改变的不超过其更新，声明相同"
    ),
    (
        "{remark}; by group privacy it leaves a client's {few} records an epsilon of {two}, {more} records {ten} and {many} "
        "records {hundred} at delta {delta}, sampling not counted"
    ): (
        "{remark}；按群组隐私，对一个客户端的 {few} 条记录为 ε {two}，{more} 条为 {ten}，{many} 条为 {hundred}"
        "（δ = {delta}，未计抽样）"
    ),
    (
        "Look first: the model is no better on its own training records than always naming the commonest class: are records "
        "and labels exactly as it was trained on them? Strongly private training can do this as well"
    ): "请先查看：模型在自身训练记录上并不优于总是回答同一类别：记录与标签是否与训练时完全一致？强隐私的训练也可能如此",
    (
        "Look first: the model is no better on its own training records than always giving the mean: are y and outputs in one "
        "unit?"
    ): "请先查看：模型在自身训练记录上并不优于总是给出均值：y 与输出的单位是否相同？",
    (
        "Look first: members do worse than nonmembers, which chance gives in fewer than 1 of 100 audits: are records, labels, "
        "outputs and sides what they were read as?"
    ): "请先查看：成员的表现差于非成员，偶然所致的机会低于 1/100：记录、标签、输出与两侧是否如所读取的那样？",
    "The target's outputs sum to {total} in each row; they were taken for shares of it, that is, for probabilities": (
        "目标的输出每行之和为 {total}；已按占该总和的比例即概率读取"
    ),
    (
        "The target's outputs are never negative and their rows have no common sum; they were taken for logits. If they are "
        "odds, distances or rounded probabilities, the figures are not those of the model's loss"
    ): "目标的输出从不为负，各行之和也不相同；已按 logit 读取。若它们是比值、距离或取整的概率，则数字并非模型的损失所给出",
    "Invalid: {doubt}; AUC of the loss {auc}": "无效：{doubt}；损失的 AUC 为 {auc}",
    (
        "members do worse than nonmembers, which chance gives in fewer than 1 of 100,000 audits: the records, their labels, "
        "the outputs or the sides are not what they were read as"
    ): "成员的表现差于非成员，偶然所致的机会低于 1/100,000：记录、标签、输出或两侧并非所读取的那样",
    (
        "the scores that the verdict rests on are lower for members than for nonmembers, which chance gives in fewer than 1 "
        "of 100,000 audits"
    ): "结论所依据的得分在成员上低于非成员，偶然所致的机会低于 1/100,000",
    "another reading fits far better: '{name}'": "另一种读法更为符合：“{name}”",
    "Other readings that were tried: {tried}": "试过的其他读法：{tried}",
    "largest claimed epsilon": "声明的最大 ε",
    "TPR at {rate} FPR": "FPR 为 {rate} 时的 TPR",
    (
        "texts held out of {data}, each ending in a token that no other text holds; the loss of a canary is that of its "
        "secret alone, a mask that real records do not have"
    ): "从 {data} 留出的文本，各以其他文本所没有的词元结尾；金丝雀样本的损失只计其秘密部分，真实记录没有这种掩码",
    "log-probabilities of a text's tokens under the final model": "最终模型下文本各词元的对数概率",
    "English sentences made up by a grammar; tokens are bytes": "由语法生成的英文句子；词元为字节",
    "perplexity": "困惑度",
    "share of a secret written greedily": "按最可能的词元生成时得到的秘密比例",
    "share of a secret in the best of {beams} continuations": "{beams} 个生成结果中最好者的秘密比例",
    "chance that {queries} samples hold a whole secret": "{queries} 次采样含有整个秘密的概率",
    "bits of exposure among {candidates} candidates": "在 {candidates} 个候选中的暴露 bit 数",
    "bits of exposure, extrapolated": "外推的暴露 bit 数",
    "{name} (architecture {architecture}, options {options}), {parameters} parameters": "{name}（结构 {architecture}，选项 "
    "{options}），{parameters} 个参数",
    "EU AI Act, annex IV {point}": "欧盟《人工智能法》附件四第 {point} 项",
    "EU AI Act, art. {article}, annex IV {point}": "欧盟《人工智能法》第 {article} 条、附件四第 {point} 项",
    "ICO, motivated intruder": "英国 ICO，有动机的入侵者",
    "OpenDP registry of deployments": "OpenDP 部署登记册",
    "EDPB Opinion 28/2024, {paragraphs}": "EDPB 第 28/2024 号意见，{paragraphs}",
    "EDPB Opinion 28/2024": "EDPB 第 28/2024 号意见",
    "noise on the counts of clipped examples {low} to {high} of the accounted": "被裁剪样本计数上的噪声为记账值的 {low} 至 "
    "{high}",
    "Noise on counts": "计数上的噪声",
    "the negative control found more than chance allows": "阴性对照发现的多于偶然所允许的",
    "what was run is not what was accounted for": "实际运行的与记账的不符",
    (
        "what was run is not what was accounted for; its scores do not fit {curves} either, which says nothing of the "
        "claimed epsilon"
    ): "实际运行的与记账的不符；其分数也不符合{curves}，而这对所声明的 ε 不作任何说明",
    "{curve} or {other}": "{curve}或{other}",
    "the claimed curve of Gaussian DP": "所声明的高斯差分隐私曲线",
    "the claimed curve of DP-SGD": "所声明的 DP-SGD 曲线",
    "the claimed curve of the family '{family}'": "所声明的“{family}”族曲线",
    (
        "{estimator} refutes {curve} at confidence {confidence}: {parameter}; inside the family '{family}', and only there, "
        "that is an epsilon of at least {epsilon}, above the claimed {claim}"
    ): (
        "{estimator} 以 {confidence} 的置信水平反驳{curve}：{parameter}；仅在“{family}”族内，这相当于 ε 至少为 {epsilon}，高"
        "于所声明的 {claim}"
    ),
    (
        "{estimator} refutes {curve} at confidence {confidence}; inside the family '{family}', and only there, that is an "
        "epsilon of at least {epsilon}, above the claimed {claim}"
    ): (
        "{estimator} 以 {confidence} 的置信水平反驳{curve}；仅在“{family}”族内，这相当于 ε 至少为 {epsilon}，高于所声明的 "
        "{claim}"
    ),
    "effective noise multiplier at most {value}": "有效噪声乘子至多为 {value}",
    "mu at least {value}": "μ 至少为 {value}",
    (
        "Members can be told from nonmembers without the model: the split is biased, and the attack figures below are not "
        "leakage. Take members and nonmembers from the same source at random"
    ): "不凭模型即可区分成员与非成员：划分有偏，下面的攻击数字并非泄露。请从同一来源随机选取成员与非成员",
    "members can be told from nonmembers without the model, so scores show the split's bias": "不凭模型即可区分成员与非成员"
    "，因此分数反映的是划分的偏差",
    "nobody says": "无人说明",
    (
        "{shared} of {control} control records equal a training record in every column ({twins} of {training} training "
        "records equal another one). If these are the same people, take them out of the control table: they make the risks "
        "look smaller"
    ): (
        "{control} 条对照记录中有 {shared} 条在每一列上都与某条训练记录相同（{training} 条训练记录中有 {twins} 条与另一条"
        "相同）。若这些是同一批人，请从对照表中删去：它们使风险看似更小"
    ),
    (
        "The target gives probabilities; their logarithms were taken for logits. Rounding to 0 and 1 hides differences that "
        "logits show"
    ): "目标模型给出概率；取其对数作为 logit。取整为 0 与 1 会掩盖 logit 显示的差异",
    "The target gives one number a record; it was taken for the {form} of class 1 against class 0": (
        "目标模型对每条记录给出一个数；将其视为类别 1 相对类别 0 的{form}"
    ),
    "logit": "logit",
    "probability": "概率",
    (
        "The target gives numbers and y holds no classes: a regression. Attacks compare the logarithm of the squared error, "
        "which is the same in every unit up to a constant"
    ): "目标模型给出数值，且 y 不含类别：这是对数值的预测。攻击比较平方误差的对数，它在任何单位下只差一个固定值",
    "y holds several labels a record; attacks compare the binary cross-entropy, added up over labels": (
        "y 中每条记录有多个标签；攻击比较二元对数损失，对各标签求和"
    ),
    (
        "y holds tokens; attacks compare the mean cross-entropy over those that are predicted (labels of 0 or above)"
    ): "y 中是词元；攻击比较所预测词元（标签为 0 或以上）的平均对数损失",
    (
        "y holds a class for each place; attacks compare the mean cross-entropy over those that are predicted"
    ): "y 中是每个位置的类别；攻击比较所预测位置的平均对数损失",
    (
        "Both axes of the outputs fit the classes; the {axis} was taken, with which more answers are right"
    ): "输出的两个轴都符合类别数；取{axis}，其正确回答较多",
    "last axis": "最后一个轴",
    "second axis": "第二个轴",
    (
        "The target's answer for a record depends on which others share its batch, so figures depend on it as well: batch "
        "statistics in training mode, or a batch that is not the first axis of what the model takes?"
    ): "目标模型对一条记录的回答取决于同批的其他记录，因此数字也如此：是训练状态的批统计量，还是批不在输入的第一个轴？",
    (
        "The target answers the same records differently when asked again: is it in training mode (dropout, batch statistics)?"
    ): "再次询问时，目标模型对相同记录给出不同的回答：它是否处于训练状态（dropout、批统计量）？",
    (
        "The model is right on {members} of the members and {nonmembers} of the nonmembers: both sides look trained on. If "
        "nonmembers were split from the training records after training, no figure here says anything; give records that the "
        "model was never trained on. If they are such records, the model generalises"
    ): (
        "模型在成员上的正确率为 {members}，在非成员上为 {nonmembers}：两侧看似都用于训练。若非成员是训练之后从训练记录中"
        "划分出来的，则此处任何数字都不说明任何事；请给出模型从未用于训练的记录。若它们正是这样的记录，则模型对新记录同样有效"
    ),
    (
        "The references were trained on records that follow the target's coins, as where every record is in exactly half of "
        "all models: attacks that compare could tell the coins from the references alone, so no epsilon follows. Train "
        "references on independent coins, or leave them out for an epsilon from the target alone"
    ): (
        "参考模型的训练记录取决于目标模型的硬币，例如每条记录正好在一半的模型中：作比较的攻击仅凭参考模型即可推知硬币，"
        "因此得不出"
        " ε。请用独立的硬币训练参考模型，或不使用参考模型，仅由目标模型得出 ε"
    ),
    (
        "One coin decided on all records of each of {users} users (at most {records} of one); scores of a user's records are "
        "added, and {about}"
    ): "{users} 个用户各由一枚硬币决定其全部记录（每个用户至多 {records} 条）；同一用户各记录的得分相加，{about}",
    ("bounds are converted from a group of {records} records to one record"): "界由 {records} 条记录的组换算为一条记录",
    "bounds are about adding or removing a user with all records": "界针对加入或删去一个用户及其全部记录",
    "The target was trained here, on the members, by the function that trained its references": (
        "目标模型在此处用成员训练，所用函数与训练参考模型的函数相同"
    ),
    "predicted labels of the final model": "最终模型的预测标签",
    (
        "{name}: inside the family '{family}' the scores prove {epsilon}, above the claimed {claim}; the claim does not "
        "assert that family, so this alone refutes nothing"
    ): "{name}：在“{family}”族内分数证明 {epsilon}，高于所声明的 {claim}；该声明不主张该族，因此仅凭这一点不反驳任何内容",
    "nothing that a game of this report is about": "本报告任何博弈均不涉及",
    "Outside the claim: {text}": "声明之外：{text}",
    "Outside the claim": "声明之外",
    "{name} adds no noise: it has no guarantee at any epsilon": "{name} 不加噪：在任何 ε 下都没有保证",
    "{name}: {item} failed the check ({value})": "{name}：{item}经核对不成立（{value}）",
    "the coins": "硬币",
    (
        "Epsilon of this edition: {epsilon}. Before any figure here was computed, each membership was turned over by itself "
        "with a chance of {chance}. Whatever else a reader knows, the odds of one membership change by at most a factor of "
        "e^{own}; the proven bounds hold"
    ): (
        "本版自身的 ε：{epsilon}。在计算此处任何数字之前，每条记录的成员身份都以 {chance} 的概率各自独立地改变。无论读者另"
        "知道什么，一条记录成员身份的概率比至多改变 e^{own} 倍；所证明的界仍然成立"
    ),
    (
        "This edition holds {figures} figures that depend on who was a member, in coarse steps: together at most {bits} bits "
        "about {records} memberships"
    ): "本版含 {figures} 个取决于成员身份的数字，均取粗略的步长：合计至多 {bits} bit，涉及 {records} 个成员身份",
    "one rate in coarse steps": "一个取粗略步长的比率",
    "a bound lies above the claim": "有一个界高于所声明的值",
    "no bound lies above the claim, and one could have been": "没有界高于所声明的值，而本次审计本可得出这样的界",
    "even perfect scores would not have proved more than the claim": "即使完美的分数也证明不了比声明更多",
    "the audit's own checks failed": "审计自身的核对未成立",
}
"""What reports record in English; names in braces stand for any text."""

FORBIDDEN = (r"安全(?!性|水平|聚合)", r"匿名", r"合规", r"(?<!未)(?<!不)通过")


@dataclass(frozen=True, slots=True)
class Chinese:
    """Chinese, in simplified characters."""

    tag: ClassVar[str] = "zh"
    sentences: ClassVar[Mapping[str, str]] = SENTENCES
    recorded: ClassVar[Mapping[str, str]] = RECORDED
    forbidden: ClassVar[tuple[str, ...]] = FORBIDDEN
    fonts: ClassVar[tuple[str, ...]] = ("Noto Serif CJK SC",)
    spaceless: ClassVar[str] = "\u3000-\u303f\u4e00-\u9fff\uff00-\uffef“”"


PLUGIN = Chinese
