"""One page of a reconstruction that opens offline: images, std, edges, a slider, error bars."""

from __future__ import annotations

import base64
import html
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from cofem.files import atomic_write

UNIT = "units of the data"
# Probability of the intervals that are shown.
LEVEL = 0.95
# Avoids a division by zero.
TINY = 1e-300


def write_report(
    path: Path, found: Any, layers: dict[str, np.ndarray], title: str, facts: dict[str, str]
) -> None:
    """Write the page.

    Parameters
    ----------
    path : Path
        .html.
    found : Reconstruction
        Two image axes; of three the middle slice is shown.
    layers : dict of arrays (L, H, W)
        What the slider goes through, in order; the last is the reconstruction.
    title : str
    facts : dict of str
        Rows of the table beside the pictures.
    """
    complex_images = np.iscomplexobj(found.image)
    level = np.sqrt(-np.log(1 - LEVEL)) if complex_images else float(ndtri((1 + LEVEL) / 2))
    maps = {name: np.abs(_slices(x)) for name, x in layers.items()}
    edges = 1 / np.sqrt(np.maximum(_slice(np.asarray(found.precision)), TINY))
    data = {
        "shape": list(next(iter(maps.values())).shape),
        "layers": [{"name": name, "data": _encoded(x)} for name, x in maps.items()],
        "std": _encoded(_slices(np.asarray(found.std))),
        "edges": _encoded(edges),
        "level": float(level),
        "unit": UNIT,
    }
    rows = "".join(
        f"<tr><th>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in facts.items()
    )
    page = PAGE.replace("@TITLE@", html.escape(title)).replace("@ROWS@", rows)
    page = page.replace("@DATA@", json.dumps(data).replace("<", "\\u003c"))
    with atomic_write(path) as stream:
        stream.write(page.encode("utf-8"))


def _slices(x: np.ndarray) -> np.ndarray:
    return x if x.ndim == 3 else x[:, x.shape[1] // 2]


def _slice(x: np.ndarray) -> np.ndarray:
    return x if x.ndim == 2 else x[len(x) // 2]


def _encoded(x: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(x, dtype="<f4").tobytes()).decode("ascii")


PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>@TITLE@</title>
<style>
body{font:15px/1.5 system-ui,sans-serif;margin:2em;max-width:75em;color:#222}
.maps{display:flex;flex-wrap:wrap;gap:1.5em}figure{margin:0}figcaption{margin:.3em 0}
canvas.map{image-rendering:pixelated;width:320px;border:1px solid #999;cursor:crosshair}
.frame{position:relative;width:322px;line-height:0}
.mark{position:absolute;width:12px;height:12px;margin:-7px 0 0 -7px;border:2px solid #e60;
border-radius:50%;pointer-events:none}
canvas.bar{width:320px;height:12px;display:block;margin-top:4px;border:1px solid #999}
.scale{display:flex;justify-content:space-between;width:320px;font-size:12px}
th{text-align:left;padding-right:1em;font-weight:600}
#picked{min-height:3em;font-variant-numeric:tabular-nums}
input[type=range]{width:320px}
</style></head><body>
<h1>@TITLE@</h1><table>@ROWS@</table>
<p><label>Contrast <select id="contrast"></select></label></p>
<p><label>From <span id="ends"></span><br>
<input type="range" id="slider" min="0" step="0.01"></label> <b id="shown"></b></p>
<p id="picked">Click a pixel for its value and 95 % interval.</p>
<div class="maps" id="maps"></div>
<script>
const page=@DATA@;
const numbers=t=>new Float32Array(Uint8Array.from(atob(t),c=>c.charCodeAt(0)).buffer);
const [L,H,W]=page.shape, P=H*W;
const layers=page.layers.map(l=>({name:l.name,data:numbers(l.data)}));
const std=numbers(page.std), edges=numbers(page.edges);
const last=layers[layers.length-1].data;
const $=id=>document.getElementById(id);
let chosen=0,picked=null;
for(let i=0;i<L;i++)$('contrast').add(new Option(String(i+1),i));
$('slider').max=layers.length-1;$('slider').value=layers.length-1;
$('ends').textContent=layers.map(l=>l.name).join(' → ');
const short=x=>x===0?'0':Math.abs(x)>=1e-2&&Math.abs(x)<1e4?x.toPrecision(3):x.toExponential(1);
function makeMap(id,title){
  const figure=document.createElement('figure');
  figure.innerHTML=`<figcaption id="${id}-title">${title}</figcaption><div class="frame"><canvas
 class="map" id="${id}" width="${W}" height="${H}"></canvas><div
 class="mark" id="${id}-mark" hidden></div></div>
<canvas class="bar" id="${id}-bar" width="320" height="12"></canvas>
<div class="scale"><span id="${id}-low"></span><span>${page.unit}</span>
<span id="${id}-high"></span></div>`;
  $('maps').append(figure);
  $(id).addEventListener('click',e=>{const box=$(id).getBoundingClientRect();
    pick(Math.min(H-1,Math.floor((e.clientY-box.top)/box.height*H)),
         Math.min(W-1,Math.floor((e.clientX-box.left)/box.width*W)))});
}
function paint(id,values,top){
  const context=$(id).getContext('2d'),image=context.createImageData(W,H);
  for(let j=0;j<P;j++){const v=Math.max(0,Math.min(255,255*values[j]/top));
    image.data.set([v,v,v,255],4*j)}
  context.putImageData(image,0,0);
  const bar=$(id+'-bar').getContext('2d'),ramp=bar.createLinearGradient(0,0,320,0);
  ramp.addColorStop(0,'#000');ramp.addColorStop(1,'#fff');
  bar.fillStyle=ramp;bar.fillRect(0,0,320,12);
  $(id+'-low').textContent='0';$(id+'-high').textContent=short(top);
}
const most=a=>{const s=Float32Array.from(a).sort();return s[Math.floor(.998*(s.length-1))]||1};
function draw(){
  const at=chosen*P,part=(d)=>d.subarray(at,at+P);
  const place=Number($('slider').value),low=Math.floor(place),high=Math.min(low+1,layers.length-1);
  const share=place-low,a=part(layers[low].data),b=part(layers[high].data);
  const mixed=a.map((v,j)=>(1-share)*v+share*b[j]);
  $('shown').textContent=share<.05?layers[low].name:share>.95?layers[high].name:
    `${layers[low].name} ${(100*(1-share)).toFixed(0)} %, ${layers[high].name}`;
  paint('image',mixed,most(part(last)));
  paint('std',part(std),most(part(std)));
  paint('edges',edges,most(edges));
}
function pick(row,column){
  for(const id of ['image','std','edges']){const mark=$(id+'-mark');mark.hidden=false;
    mark.style.left=`${100*(column+.5)/W}%`;mark.style.top=`${100*(row+.5)/H}%`}
  picked=[row,column];
  const j=chosen*P+row*W+column,v=last[j],s=std[j],d=page.level*s;
  $('picked').textContent=`Row ${row}, column ${column}: ${short(v)} ± ${short(s)} `+
    `(95 %: ${short(Math.max(0,v-d))} to ${short(v+d)}) ${page.unit}; `+
    layers.slice(0,-1).map(l=>`${l.name} ${short(l.data[j])}`).join(', ');
}
makeMap('image','Image');makeMap('std','Standard deviation');
makeMap('edges','Edges: prior standard deviation of the gradient');
$('slider').addEventListener('input',draw);
$('contrast').addEventListener('change',e=>{chosen=Number(e.target.value);draw();
  if(picked)pick(...picked)});
draw();
const asked=location.hash.match(/^#(\\d+),(\\d+)$/);  // page.html#row,column
if(asked&&asked[1]<H&&asked[2]<W)pick(Number(asked[1]),Number(asked[2]));
document.body.dataset.ready='yes';
</script></body></html>
"""
