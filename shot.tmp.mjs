import { chromium } from 'playwright-core'
const [,, url, out, scheme='light', open=''] = process.argv
const b = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--headless','--no-sandbox','--disable-gpu','--disable-quic','--no-first-run','--disable-background-networking','--disable-component-update','--disable-sync'] })
const p = await b.newPage({ viewport: { width: 1280, height: 720 }, colorScheme: scheme })
p.on('console', m => console.log('console', m.type(), m.text()))
p.on('pageerror', e => console.log('pageerror', e))
await p.goto(url)
await p.waitForTimeout(15000)
if (open) { await p.fill('#filter', open); await p.keyboard.press('Enter'); await p.keyboard.press('ArrowDown'); await p.keyboard.press('Enter'); await p.waitForTimeout(6000); await p.fill('#filter',''); await p.waitForTimeout(1500) }
await p.screenshot({ path: out })
await b.close()
