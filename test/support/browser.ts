import { existsSync } from 'node:fs'
import {
  type Browser,
  type BrowserContextOptions,
  chromium,
  type Page,
} from 'playwright-core'
import type { Test } from 'tap'

const executablePath = '/usr/bin/chromium'

/** Why there is no browser to test with; false when there is one. */
export const noBrowser: string | false =
  !existsSync(executablePath) && `there is no ${executablePath} (Debian package chromium)`

/** Nothing but what the test asks of it goes over the network. */
const quiet = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--disable-dev-shm-usage',
  '--enable-precise-memory-info',
]

/** With a profile of its own. */
export const launchBrowser = (): Promise<Browser> =>
  chromium.launch({ executablePath, args: quiet })

/** Closed when the test ends. */
export const openBrowser = async (t: Test): Promise<Browser> => {
  const browser = await launchBrowser()
  t.teardown(() => browser.close())
  return browser
}

/** A page, and what it must not do. */
export interface WatchedPage {
  readonly page: Page
  /** Errors, among them reports of the content security policy. */
  readonly complaints: readonly string[]
  /** Origins of all that was asked for. */
  readonly origins: ReadonlySet<string>
}

export const openPage = async (
  browser: Browser,
  options: BrowserContextOptions = {},
): Promise<WatchedPage> => {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 640 },
    ...options,
  })
  const page = await context.newPage()
  const complaints: string[] = []
  const origins = new Set<string>()
  page.on('console', message => {
    if (message.type() === 'error' || message.type() === 'warning')
      complaints.push(message.text())
  })
  page.on('pageerror', error => complaints.push(String(error)))
  page.on('request', request => {
    const { protocol, origin } = new URL(request.url())
    if (protocol !== 'data:') origins.add(origin)
  })
  return { page, complaints, origins }
}
