(() => {
  "use strict"
  const d = document, n = navigator, me = d.currentScript, to = new URL("hit.gif", me.src).href
  const site = me.dataset.site || location.hostname
  let page
  const send = say => {
    if (n.doNotTrack === "1" || n.globalPrivacyControl) return
    const url = to + "?" + new URLSearchParams({ site, ...say })
    if (!n.sendBeacon || !n.sendBeacon(url)) new Image().src = url
  }
  const view = () => {
    const now = location.pathname
    if (now === page) return
    const campaign = [...new URLSearchParams(location.search)].filter(([name]) => name.startsWith("utm_"))
    const ref = page === undefined ? d.referrer.split(/[?#]/)[0] : ""
    page = now
    send({ path: now + (campaign.length ? "?" + new URLSearchParams(campaign) : ""), ref })
  }
  window.weir = { event: name => send({ path: location.pathname, event: name }) }
  const push = history.pushState
  history.pushState = function () {
    push.apply(this, arguments)
    view()
  }
  addEventListener("popstate", view)
  addEventListener("pageshow", e => {
    if (!e.persisted) return
    page = ""
    view()
  })
  if (d.prerendering) d.addEventListener("prerenderingchange", view, { once: true })
  else view()
})()
