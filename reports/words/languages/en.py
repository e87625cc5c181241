"""English."""

SENTENCES = {
    # the answer
    "question.label_only": "Do the predicted labels of this model tell which records it was trained on?",
    "question.final_model": "Do the outputs of this model tell which records it was trained on?",
    "question.final_weights": "Do the weights of this model tell which records it was trained on?",
    "question.all_steps": "Do the noisy steps of this training tell which records the model was trained on?",
    "question.other": "Does what is released ({what}) tell which records the model was trained on?",
    "question.none": "Does this model tell which records it was trained on?",
    "answer.yes": "Yes",
    "answer.a little": "A little",
    "answer.not shown": "Not shown",
    "answer.no answer": "No answer",
    "answer.rate": "At {fpr} false alarms the attack {attack} finds {tpr} of the members (interval {low} to {high}); "
    "guessing finds {chance}.",
    "answer.no_rate": "No rate could be measured on so few records.",
    "answer.proven": "It proves {proof}.",
    "answer.proven_by": "The largest proof is that of {attack}: {proof}.",
    "answer.nothing_proven": "No attack proves any leakage (ceiling {ceiling}). That does not show that nothing leaks.",
    "answer.split": "No ε follows, because membership was decided by a split of the data.",
    "answer.void": "The evidence cannot be used: {reason}.",
    "answer.nothing": "No attack was run.",
    "answer.others": "To others. ",
    "answer.other": "{question} {strength}.",
    "proof": "ε ≥ {epsilon} for any mechanism with {confidence} confidence (ceiling of its game {ceiling})",
    # the facts under it
    "fact.claim": "Claim",
    "fact.policy": "Release policy",
    "fact.trust": "Membership",
    "fact.stronger": "Stronger",
    "fact.notes": "Notes",
    "policy.none": "No policy was set, so this report says nothing about a release.",
    "policy.met": "Met",
    "policy.not_met": "Not met",
    "policy.gates": "{met} of {all} gates hold.",
    "policy.missed": "{gate}: limit {limit}, found {found}.",
    "trust.coins": "Decided by recorded coins that the training could not foresee.",
    "trust.split": "Decided by a split of the data.",
    "trust.control": "The negative control raised {alarms} false alarms in {repetitions} repetitions ({allowed} allowed).",
    "trust.no_control": "No negative control was run.",
    "trust.guard": "Whether inputs alone tell the two parts apart: {value}.",
    "trust.no_guard": "Whether the two parts differ before any model is asked was not tested.",
    "stronger.coins": "To be able to contradict ε ≤ {epsilon} for any mechanism, a game needs at least {needed} coins and "
    "every guess right; the largest here had {coins}.",
    "stronger.records": "{more} members and as many nonmembers instead of {records} would halve the width of the intervals.",
    "stronger.references": "Attacks with reference models grow stronger with their number; here {references}, published "
    "attacks use 64 to 256.",
    "stronger.no_references": "No reference model was trained; published attacks use 64 to 256.",
    # the annex
    "annex": "Annex: requirements and where this report shows them",
    "annex.law": "The annex maps evidence to texts. It is no legal advice, and it judges no conformity: description and "
    "necessity of the processing, the owner's choices and the decision to release stay with the controller.",
    "annex.caption": "Shown: the report holds it. Partly: declared, or for a part of the audit. Not shown: it is missing here.",
    "annex.requirement": "What is asked",
    "annex.source": "Source",
    "annex.place": "Section, field of report.json",
    "annex.status": "Status",
    # the label
    "label.title": "Privacy audit",
    "label.what": "Item",
    "label.said": "Finding",
    "label.source": "From audit report {id}, made by audit {version}. Of the tested attacks only; a stronger attack may exist.",
    # the page of contents
    "contents": "Contents",
    "attack_classes": "Attacks run and not run",
}
