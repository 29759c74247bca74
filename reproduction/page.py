"""The frame of the report: style and the pieces of HTML."""

from __future__ import annotations

from html import escape

STYLE = """
:root { --ink:#1f2933; --soft:#5b6775; --line:#dde3ea; --good:#1c7c2c; --bad:#b42318; --back:#ffffff; --tint:#f6f8fa; }
* { box-sizing:border-box; }
body { margin:0; color:var(--ink); background:var(--back); font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif; }
main { max-width:1080px; margin:0 auto; padding:1rem clamp(.8rem,3vw,2rem) 3rem; }
h1 { font-size:1.7rem; line-height:1.2; margin:.6rem 0 .3rem; } h2 { font-size:1.3rem; margin:2.4rem 0 .4rem; }
h3 { font-size:1.02rem; margin:0; } p { margin:.4rem 0; } a { color:#0b5fa5; }
.lead, .chosen, figcaption, .small { color:var(--soft); } .chosen, .small, figcaption { font-size:.85rem; }
nav { display:flex; flex-wrap:wrap; gap:.4rem .9rem; padding:.5rem 0; border-block:1px solid var(--line); margin:.8rem 0; }
.panel { border:1px solid var(--line); border-radius:10px; padding:.9rem 1rem; margin:1rem 0; }
.verdict { background:var(--tint); border-left:4px solid #0b5fa5; padding:.45rem .7rem; margin:.6rem 0; }
.facets { display:grid; grid-template-columns:repeat(auto-fit,minmax(min(100%,270px),1fr)); gap:.4rem; }
.facets figure { margin:0; max-width:460px; } .facets img { width:100%; height:auto; display:block; }
figcaption { text-align:center; }
.legend { display:flex; flex-wrap:wrap; gap:.15rem 1rem; font-size:.85rem; margin:.5rem 0; padding:0; list-style:none; }
.legend li { display:flex; align-items:center; gap:.35rem; } .tag { color:var(--bad); font-size:.78rem; }
.claims { list-style:none; padding:0; margin:.4rem 0 0; font-size:.88rem; }
.claims li { display:grid; grid-template-columns:3.4rem 1fr; gap:.4rem; padding:.12rem 0; }
.pass, .fail, .none { font-weight:600; font-size:.78rem; padding-top:.1rem; }
.pass { color:var(--good); } .fail { color:var(--bad); } .none { color:var(--soft); }
.scroll { overflow-x:auto; } table { border-collapse:collapse; font-size:.86rem; width:100%; }
th, td { text-align:left; padding:.28rem .55rem; border-bottom:1px solid var(--line); vertical-align:top; white-space:nowrap; }
td.wrap { white-space:normal; min-width:11rem; } thead th { border-bottom:2px solid var(--line); }
@media print { html { font-size:10.5px; } body { font-size:1rem; } main { max-width:none; padding:0; } nav { display:none; }
  .panel { break-inside:avoid; border-color:#bbb; margin:.6rem 0; padding:.6rem .8rem; } h2, h2 + p { break-after:avoid; }
  .facets { grid-template-columns:repeat(3,1fr); } }
"""


def page(title: str, body: str) -> str:
    """A complete document: nothing is loaded from elsewhere."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>{body}</main></body></html>\n"
    )


def table(head: list[str], rows: list[list[str]], wrap: int | None = None) -> str:
    """Cells are HTML already; column ``wrap`` may break its lines."""
    top = "".join(f"<th>{cell}</th>" for cell in head)
    lines = "".join(
        "<tr>" + "".join(f"<td{' class=wrap' if j == wrap else ''}>{cell}</td>" for j, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table></div>'
