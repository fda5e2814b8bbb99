"""What is run inside pages, as JavaScript. A page can deceive it: what comes back is the page's word."""

_FIRE = "for (const name of ['input', 'change']) target.dispatchEvent(new Event(name, {bubbles: true}));"
CLICK = f"""function () {{
  const target = this.closest && this.closest('option') && this.closest('select');
  if (!target) return this.click();
  this.closest('option').selected = true; {_FIRE}
}}"""
CAN_BE_HIT = """function () {
  const box = this.getBoundingClientRect(), root = this.getRootNode();
  if (!box.width || !box.height || this.closest?.('option')) return false;
  const hit = (root.elementFromPoint ? root : document)
    .elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
  return !!hit && (hit === this || this.contains(hit) || hit.contains(this));
}"""
PREPARE_TO_TYPE = f"""function (text) {{
  const target = this, kind = this.tagName === 'INPUT' ? this.type : this.tagName;
  if (this.disabled || this.readOnly) return 'It cannot be written to.';
  if (kind === 'SELECT') {{
    const wanted = text.trim().toLowerCase();
    const found = [...this.options].find(each =>
      each.value === text || each.label.trim().toLowerCase() === wanted);
    if (!found) return 'It has no such option.';
    found.selected = true; {_FIRE} return 'set';
  }}
  if (['date', 'time', 'month', 'week', 'datetime-local', 'color', 'range'].includes(kind)) {{
    const before = this.value;
    const put = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set;
    put.call(this, text);
    if (this.value !== text) {{ put.call(this, before); return 'It does not take that value.'; }}
    {_FIRE} return 'set';
  }}
  if (['checkbox', 'radio', 'button', 'submit', 'file', 'image', 'reset'].includes(kind)
      || (this.tagName !== 'INPUT' && kind !== 'TEXTAREA' && !this.isContentEditable))
    return 'It is not a field for text.';
  this.focus();
  if (this.select) this.select(); else getSelection().selectAllChildren(this);
  return 'insert';
}}"""
SIZE = """[document.getElementsByTagName('*').length, document.body?.textContent.length || 0,
  performance.getEntriesByType('navigation')[0]?.responseStatus || 0]"""
BEGINNING = "document.body.textContent.slice(0, 12000)"
SCROLL = """(sign => {
  const before = scrollY, page = document.scrollingElement || document.body;
  scrollBy(0, sign * innerHeight * 0.8);
  const inner = scrollY === before && [...document.querySelectorAll('*')].slice(0, 5000).find(each =>
    each.scrollHeight > each.clientHeight + 20 && each.clientHeight > 150
    && /auto|scroll/.test(getComputedStyle(each).overflowY));
  if (!inner) return [scrollY, page.scrollHeight - innerHeight];
  inner.scrollBy(0, sign * inner.clientHeight * 0.8);
  return [inner.scrollTop, inner.scrollHeight - inner.clientHeight];
})"""
IMAGES = """[...document.images].slice(0, 100).map(each =>
  [each.currentSrc.slice(0, 500), each.alt.slice(0, 200), each.naturalWidth, each.naturalHeight])"""
LABEL = """(places => {
  const layer = document.createElement('div');
  layer.id = 'hermes-labels';
  layer.style.cssText = 'position:fixed;inset:0;z-index:2147483647;pointer-events:none';
  for (const [name, x, y, width, height] of places) {
    const box = document.createElement('div');
    box.style.cssText = `position:absolute;left:${x}px;top:${y}px;width:${width}px;height:${height}px;`
      + 'outline:2px solid #e11;font:bold 12px sans-serif;color:#fff;text-shadow:0 0 3px #e11,0 0 3px #e11';
    box.textContent = name; layer.append(box);
  }
  document.documentElement.append(layer);
})"""
UNLABEL = "document.getElementById('hermes-labels')?.remove()"
