import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { Browser, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { splitHostPort } from '../../src/util/ip.ts'
import { noBrowser, openBrowser, openPage } from '../support/browser.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { servePage, statusOfMany } from '../support/page-fixture.ts'
import { until } from '../support/until.ts'

/** A way to `address` that can be dead: what goes in is lost, ends too, and nobody is told. */
const tunnelTo = async (t: Test, address: string) => {
  const { host, port } = splitHostPort(address) ?? { host: '', port: 0 }
  const way = { isDead: false, lostEnds: 0, reset: () => {}, address: '' }
  const ends = new Set<Socket>()
  const carry = (from: Socket, to: Socket): void => {
    ends.add(from)
    from.on('error', () => {})
    from.on('data', piece => void (way.isDead || to.write(piece)))
    from.once('close', () => {
      ends.delete(from)
      if (way.isDead) way.lostEnds += 1
      else to.destroy()
    })
  }
  const server = createServer(near => {
    const far = connect(port, host)
    carry(near, far)
    carry(far, near)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  way.address = `127.0.0.1:${(server.address() as AddressInfo).port}`
  way.reset = () => {
    for (const end of ends) end.destroy()
  }
  t.teardown(() => {
    way.reset()
    server.close()
  })
  return way
}

/** As if another tab was in front of it, or no longer. */
const hide = (page: Page, isHidden: boolean): Promise<void> =>
  page.evaluate(`{
    Object.defineProperty(document, 'hidden', { value: ${isHidden}, configurable: true })
    document.dispatchEvent(new Event('visibilitychange'))
  }`)

/** A page whose time stands still until it is told to go on, and Usher's, too; a tunnel between them. */
const watch = async (t: Test, browser: Browser) => {
  const clock = new FakeClock()
  const { status } = statusOfMany(3)
  const { address } = await servePage(t, status, undefined, clock)
  const tunnel = await tunnelTo(t, address)
  const { page } = await openPage(browser)
  t.teardown(() => page.context().close())
  let streams = 0
  page.on('request', asked => {
    if (new URL(asked.url()).pathname === '/stream') streams += 1
  })
  await page.clock.install()
  await page.clock.pauseAt(Date.now() + 3_600_000)
  await page.goto(`http://${tunnel.address}/`)
  const says = (what: RegExp) => page.locator('#health', { hasText: what }).waitFor()
  const isShown = () => page.locator('#scroller tbody tr[data-name]').first().waitFor()
  return { clock, address, tunnel, page, streams: () => streams, says, isShown }
}

t.test('the stream, in a browser', { skip: noBrowser }, async t => {
  const browser = await openBrowser(t)

  await t.test('while nothing comes what is shown is called old', async t => {
    const { clock, tunnel, page, streams, says, isShown } = await watch(t, browser)
    await isShown()
    await says(/^runs/)
    tunnel.isDead = true
    await page.clock.fastForward(9999)
    await says(/^runs/)
    await page.clock.fastForward(1)
    await says(/^No answer from Usher\. What is shown is old; trying again\./)
    t.equal(await page.title(), '● Usher')
    await page.clock.fastForward(10_000)
    await until('it tries again', () => streams() === 3)
    await says(/^No answer/)
    tunnel.isDead = false
    let isTaken = false
    page.on('response', answer => (isTaken ||= answer.url().includes('/taken')))
    const opened = page.waitForResponse(/\/stream$/)
    await page.clock.fastForward(10_000)
    await opened
    await until('it has heard of the same look again', async () => {
      await page.clock.fastForward(50)
      return isTaken
    })
    await says(/^No answer/)
    clock.advance(1000)
    await says(/^runs/)
  })

  await t.test('a place that was lost without a word is taken anew', async t => {
    const { clock, tunnel, page, streams, isShown } = await watch(t, browser)
    await isShown()
    tunnel.isDead = true
    clock.advance(20_000)
    await until('the stream is cut', () => tunnel.lostEnds > 0)
    tunnel.isDead = false
    const answered = page.waitForResponse(/\/stream\/taken/)
    await page.clock.fastForward(5000)
    t.equal((await answered).status(), 404)
    await until('there is another stream', () => streams() === 2)
  })

  await t.test('who is hidden and refused waits until it is seen', async t => {
    const { address, tunnel, page, streams, isShown } = await watch(t, browser)
    await isShown()
    await hide(page, true)
    const refused = page.waitForResponse(answer => answer.status() === 503)
    tunnel.reset()
    const over = new AbortController()
    t.teardown(() => over.abort())
    const others = [1, 2, 3, 4].map(async () => {
      await until('it has a place', async () => {
        const { ok } = await fetch(`http://${address}/stream`, { signal: over.signal })
        return ok
      })
    })
    await Promise.all(others)
    // Chromium comes again by itself, after the 2 s that Usher asks for.
    await refused
    over.abort()
    const before = streams()
    await page.clock.fastForward(5000)
    await page.clock.fastForward(3_600_000)
    await page.evaluate(`fetch('healthz')`)
    t.equal(streams(), before)
    await hide(page, false)
    await until('it is open', () => streams() === before + 1)
  })

  await t.test('who is opened behind others takes no place until it is seen', async t => {
    const { page, streams, isShown } = await watch(t, browser)
    await isShown()
    await page.addInitScript(
      `Object.defineProperty(document, 'hidden', { value: true, configurable: true })`,
    )
    await page.reload()
    await page.evaluate(`fetch('healthz')`)
    t.equal(streams(), 1)
    await hide(page, false)
    await isShown()
    t.equal(streams(), 2)
  })
})
