// A process of its own: it mostly waits.
import t from 'tap'
import { noBrowser, openBrowser, openPage } from '../support/browser.ts'
import { servePage, statusOfMany } from '../support/page-fixture.ts'

const services = 10_000
const mostHeap = 50 << 20

t.test(`a page of ${services} Services`, { skip: noBrowser }, async t => {
  const { status } = statusOfMany(services)
  const { address } = await servePage(t, status)
  const { page, complaints } = await openPage(await openBrowser(t))
  await page.goto(`http://${address}/`)
  const rows = page.locator('#scroller tbody tr[data-name]')
  await rows.first().waitFor()
  const [painted, filled] = (await page.evaluate(
    `[performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0, performance.now()]`,
  )) as [number, number]
  t.comment(
    `first paint after ${Math.round(painted)} ms, rows before ${Math.round(filled)} ms`,
  )

  t.equal(await page.locator('#shown').textContent(), '10000 Services')
  t.equal(await page.locator('[role=grid]').getAttribute('aria-rowcount'), '10001')
  t.ok((await rows.count()) < 80, 'rows exist that can be seen')

  await page.locator('[role=grid]').focus()
  await page.keyboard.press('End')
  await page.locator('#active-row', { hasText: 'default/service-09999' }).waitFor()
  t.equal(await page.locator('#active-row').getAttribute('aria-rowindex'), '10001')
  t.ok((await rows.count()) < 80)

  await page.locator('th.new button').click()
  // The busiest of all are on top, however long two looks of the server are apart.
  await page
    .locator('td.new', { hasText: /^[1-9]/ })
    .first()
    .waitFor()
  const shown = await rows.evaluateAll(list => list.map(row => row.dataset['name']))
  for (const name of shown) t.match(name, /^default\/service-\d+[49]0\b/)
  await page.locator('#filter').fill('10.96.1.4')
  t.match(await page.locator('#shown').textContent(), /^11 of 10000 Services$/)
  await page.locator('#filter').fill('')

  const session = await page.context().newCDPSession(page)
  await session.send('HeapProfiler.collectGarbage')
  const { usedSize } = (await session.send('Runtime.getHeapUsage')) as {
    usedSize: number
  }
  t.comment(`heap of the page: ${(usedSize / 2 ** 20).toFixed(1)} MiB`)
  t.ok(usedSize < mostHeap)
  t.strictSame(complaints, [])
})
