"""docs/measured/rules_proved.md: which rules are proved for all sizes, and why the others are not.

`make proofs` writes it, and prints how many there are.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from irkit import Proof, Rule, prove
from passes.pipelines.standard import all_rules
from passes.saturation import KNOWN

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "measured" / "rules_proved.md"

HEAD = """# Rules that are proved

{proved} of the {count} rules of `passes.optimize` and `passes.saturate` are proved by `irkit.prove`, {ours} of those of
`passes.optimize` among them; `make proofs` writes this page. A proof holds for all sizes up to the rank that is named;
the other rules are compared by numbers ([rules_checked.md](rules_checked.md)), as these are, too.

| rule | proved |
| --- | --- |
"""

WHY = """
## Why the others are not

| reason | rules |
| --- | --- |
"""


def known_rules() -> tuple[Rule, ...]:
    """Each rule once."""
    return tuple({id(each): each for each in KNOWN}.values())


def kind(reason: str) -> str:
    """A reason without the names in it."""
    for part in ("neither moves elements nor works on each", "may hold any numbers", "is asked for by a predicate"):
        if part in reason:
            return f"... {part}"
    if reason.startswith("the elements differ by"):
        return "it calculates with operators whose meaning the proof does not know"
    return "it fires on none of the forms" if reason.startswith("it fires on none") else reason


def page(found: list[tuple[Rule, Proof]]) -> str:
    """The text of the page."""
    proved = [(rule, proof) for rule, proof in found if proof]
    own = set(map(id, all_rules(2)))
    lines = [
        HEAD.format(proved=len(proved), count=len(found), ours=sum(id(rule) in own for rule, _ in proved)).rstrip()
    ]
    lines += [f"| `{rule.name}` | {proof.extent} |" for rule, proof in sorted(proved, key=lambda pair: pair[0].name)]
    reasons = Counter(kind(proof.reason) for _, proof in found if not proof)
    lines += [WHY.rstrip(), *(f"| {reason} | {count} |" for reason, count in reasons.most_common())]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank", type=int, default=4, help="up to which rank rules are proved, at most")
    rank = parser.parse_args().rank
    found = [(rule, prove(rule, rank)) for rule in known_rules()]
    PAGE.write_text(page(found))
    print(f"{sum(map(bool, (proof for _, proof in found)))} of {len(found)} rules are proved")


if __name__ == "__main__":
    main()
