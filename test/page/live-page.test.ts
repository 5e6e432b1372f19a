// A process of its own: it mostly waits.
import { once } from 'node:events'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import axe from 'axe-core'
import type { Browser, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { noBrowser, openBrowser, openPage } from '../support/browser.ts'
import { manifestFile, service, slice } from '../support/manifests.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { firstWord, namedBackend } from '../support/tcp-backend.ts'
import { startUsher } from '../support/usher.ts'

/** Three Services with clients: one is well, one has a single backend, one has none. */
const serveThree = async (t: Test) => {
  const good = await freeTcpPort()
  const fragile = await freeTcpPort()
  const at = (port: number) => [{ name: 'p', port }]
  const two = await Promise.all(['a', 'b'].map(name => namedBackend(t, name)))
  const only = await namedBackend(t, 'c')
  const file = await manifestFile(
    t,
    service('good', testHost, at(good)),
    ...slice(
      'good',
      two.map(({ endpoint }) => endpoint),
    ),
    service('fragile', testHost, at(fragile)),
    ...slice('fragile', [only.endpoint]),
    service('none', testHost, at(await freeTcpPort())),
    service('<img src="/x">', testHost, at(await freeTcpPort())),
  )
  const usher = await startUsher(t, 'run', `--manifests=${file.path}`)
  const over = new AbortController()
  const dialled = (async () => {
    while (!over.signal.aborted) {
      await Promise.all([good, fragile].map(port => firstWord(port)))
      await sleep(30)
    }
  })()
  t.teardown(async () => {
    over.abort()
    await dialled
  })
  return { only, origin: `http://${usher.metrics}` }
}

/** Names of the rows in their order. */
const names = (page: Page): Promise<readonly string[]> =>
  page.locator('#scroller tbody td.name').evaluateAll(cells =>
    cells.map(
      // The last is of protocol and family.
      cell =>
        [...cell.children]
          .slice(0, -1)
          .map(part => part.textContent)
          .join(''),
    ),
  )

const row = (page: Page, name: string) =>
  page.locator('#scroller tbody tr', { hasText: `default/${name}:p` })

/** What is hard to read or to use, by axe's rules. */
const barriers = async (page: Page): Promise<unknown> => {
  await page.evaluate(axe.source)
  return page.evaluate(
    `axe.run().then(({ violations }) => violations.map(({ id, nodes }) => [id, ...nodes.map(({ html, failureSummary }) => html + failureSummary)]))`,
  )
}

/** A reverse proxy that has Usher under a path of its own. */
const under = async (t: Test, prefix: string, origin: string): Promise<string> => {
  const proxy = createServer((asked, answer) => {
    const path = (asked.url ?? '').replace(prefix, '')
    if (path === asked.url) {
      answer.writeHead(404).end()
      return
    }
    const onward = request(`${origin}${path}`, answered => {
      answer.writeHead(answered.statusCode ?? 500, answered.headers)
      answered.pipe(answer)
    })
    answer.on('close', () => onward.destroy())
    onward.on('error', () => answer.destroy())
    onward.end()
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  t.teardown(() => {
    proxy.closeAllConnections()
    proxy.close()
  })
  return `http://127.0.0.1:${(proxy.address() as AddressInfo).port}${prefix}/`
}

t.test('the live page in a browser', { skip: noBrowser }, async t => {
  const { only, origin } = await serveThree(t)
  const browser: Browser = await openBrowser(t)
  const { page, complaints, origins } = await openPage(browser)
  await page.goto(`${origin}/`)
  await row(page, 'good').waitFor()

  await t.test('says how all is, and what cannot be honoured, as text', async t => {
    t.match(await page.locator('#health').textContent(), /^runs · .*· \d+ problems?$/)
    t.match(
      await page.locator('#about').textContent(),
      /^Usher \d+\.\d+\.\d+\S*, userspace mode, \w+ relay/,
    )
    t.match(await page.locator('#problems').textContent(), /<img src="\/x">/)
    t.match(
      await page.locator('#process').textContent(),
      /listeners failed 0.*event loop late/,
    )
  })

  await t.test('has trouble first, and sorts as it is told', async t => {
    t.strictSame(
      await names(page),
      ['none', 'fragile', 'good'].map(name => `default/${name}:p`),
    )
    const head = page.locator('th.name')
    await head.locator('button').click()
    t.equal(await head.getAttribute('aria-sort'), 'ascending')
    t.strictSame(
      await names(page),
      ['fragile', 'good', 'none'].map(name => `default/${name}:p`),
    )
    await head.locator('button').click()
    t.strictSame(
      await names(page),
      ['none', 'good', 'fragile'].map(name => `default/${name}:p`),
    )
  })

  await t.test('is used by keys alone', async t => {
    await page.reload()
    await row(page, 'good').waitFor()
    await page.keyboard.press('ArrowDown')
    t.match(await page.locator('#active-row').textContent(), /^default\/none:p/)
    await page.keyboard.press('/')
    await page.keyboard.type('GOOD')
    t.strictSame(await names(page), ['default/good:p'])
    t.equal(await page.locator('#shown').textContent(), '1 of 3 Services')
    for (const key of ['Enter', 'ArrowDown', 'Enter']) await page.keyboard.press(key)
    t.equal(await page.locator('#opened h2').textContent(), 'default/good:pTCP IPv4')
    await page.locator('#opened', { hasText: 'Since the start' }).waitFor()
    await page.locator('#opened td', { hasText: 'ClusterIP' }).waitFor()
    await page.keyboard.press('Escape')
    t.equal(await page.locator('#opened').isVisible(), false)
    t.strictSame(await names(page), ['default/good:p'], 'the filter stays')
    await page.keyboard.press('/')
    await page.keyboard.type('frag')
    t.strictSame(await names(page), ['default/fragile:p'], 'another was typed over it')
    await page.keyboard.press('Escape')
    t.equal((await names(page)).length, 3)
  })

  await t.test('keeps the opened Service in its address', async t => {
    const title = page.locator('#opened h2')
    await row(page, 'good').click()
    await row(page, 'fragile').click()
    t.match(page.url(), /#default\/fragile:p$/)
    await page.reload()
    await title.filter({ hasText: 'default/fragile:p' }).waitFor()
    await page.goBack()
    await title.filter({ hasText: 'default/good:p' }).waitFor()
    await page.keyboard.press('Escape')
    t.equal(await page.locator('#opened').isVisible(), false)
    t.equal(page.url(), `${origin}/`)
  })

  await t.test('says that it takes what comes', async t => {
    const taken = await page.waitForResponse(/\/stream\/taken\?viewer=/)
    t.equal(taken.status(), 200)
  })

  await t.test('does not hide that connections ended unseen', async t => {
    // A page of its own: it is refused, and browsers complain of that.
    const { page: own } = await openPage(browser)
    const asked: string[] = []
    own.on('request', one => void asked.push(one.url()))
    await own.goto(`${origin}/#default/none:p`)
    // Nothing fakes Usher's answer: only what it is asked for is another's place, or Service.
    const ask = (name: string, value: string) =>
      own.route('**/ended?*', async route => {
        const url = new URL(route.request().url())
        if (name !== 'after' || url.searchParams.has(name))
          url.searchParams.set(name, value)
        await route.continue({ url: url.href })
      })
    const ended = own.locator('#opened section', { hasText: 'Last connections' })
    await ended.getByText('None has ended since this was opened.').waitFor()
    const limits = asked.flatMap(url => /(\w+)\?.*(limit=\d+)/.exec(url)?.slice(1) ?? [])
    t.match(limits.join(' '), /^ended limit=50 connections limit=20/, 'what is shown')
    await ask('after', 'of-an-earlier-time')
    await ended.getByText('Some ended meanwhile that nobody kept.').waitFor()
    t.equal(await ended.getByText('None has ended').count(), 0)
    await own.unroute('**/ended?*')

    await ask('routes', 'default/unknown')
    await ended.getByText('default/unknown').waitFor()
    await own.unroute('**/ended?*')
    await ended.getByText('Some ended meanwhile that nobody kept.').waitFor()
    await own.context().close()
  })

  await t.test('counts connections that have made room for later ones', async t => {
    await row(page, 'good').click()
    const ended = page.locator('#opened section', { hasText: 'Last connections' })
    // Some thirty end in a second: no answer leaves any out.
    await ended.getByText(/^\d+ more that are not listed\.$/).waitFor()
    t.equal(await ended.locator('tbody tr').count(), 50)
    await page.keyboard.press('Escape')
  })

  await t.test('does not move as figures grow longer', async t => {
    const [room, text] = (await page.evaluate(`(() => {
      const up = document.querySelector('#process span span')
      const text = document.createRange()
      text.selectNodeContents(up)
      return [up, text].map(one => one.getBoundingClientRect().width)
    })()`)) as [number, number]
    t.ok(room > 1.5 * text, `${room} px for ${text} px of seconds, minutes to come`)
  })

  await t.test('shows rates, and a line of the last two minutes', async t => {
    await row(page, 'good').locator('td.new', { hasText: /[1-9]/ }).waitFor()
    await row(page, 'good').locator('path.rate[d*="L"]').waitFor({ state: 'attached' })
    t.match(
      await row(page, 'good').locator('td.past small').textContent(),
      /^\d[\d.]*\/s$/,
    )
    t.equal(await row(page, 'good').getAttribute('data-trouble'), '0')
    t.equal(await row(page, 'none').locator('td.endpoints').textContent(), '0/0')
  })

  await t.test('has that line at once when it is opened later', async t => {
    const later = await openPage(browser)
    await later.page.goto(origin)
    const good = row(later.page, 'good')
    await good.waitFor()
    const line = await good.evaluate(
      element => element.querySelector('path.rate')?.getAttribute('d') ?? '',
    )
    t.match(line, /^M\d+ [\d.]+(?:L\d+ [\d.]+)+$/)
    await later.page.context().close()
  })

  for (const colorScheme of ['light', 'dark'] as const)
    await t.test(`can be read by everybody, ${colorScheme}`, async t => {
      await page.emulateMedia({ colorScheme })
      await row(page, 'fragile').click()
      await page.locator('#opened td', { hasText: 'ClusterIP' }).waitFor()
      t.strictSame(await barriers(page), [])
      await page.keyboard.press('Escape')
    })

  await t.test('shows a Service that begins to fail', async t => {
    const from = performance.now()
    await only.close()
    const failing = page.locator('#scroller tr[data-trouble="3"]', { hasText: 'fragile' })
    // Far more than it takes: a look a second.
    await failing.waitFor({ timeout: 20_000 })
    t.comment(`red after ${Math.round(performance.now() - from)} ms`)
    t.equal(await failing.locator('td.state').textContent(), 'failing')
    t.strictSame(await barriers(page), [])
  })

  await t.test('asks nobody else, and complains of nothing', async t => {
    t.strictSame([...origins], [origin])
    t.strictSame(complaints, [])
  })

  await t.test('works under a path', async t => {
    const other = await openPage(browser)
    await other.page.goto(await under(t, '/nodes/n1/usher', origin))
    await row(other.page, 'good').click()
    await other.page.locator('#opened td', { hasText: 'ClusterIP' }).waitFor()
    t.strictSame(other.complaints, [])
    await other.page.context().close()
  })

  await t.test('says without JavaScript how all is', async t => {
    const { page: still } = await openPage(browser, { javaScriptEnabled: false })
    await still.goto(`${origin}/`)
    t.match(
      await still.locator('body').textContent(),
      /Usher\s+runs.*\. Usher .*, userspace mode.*needs JavaScript/s,
    )
  })
})
