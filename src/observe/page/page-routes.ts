import { existsSync, readdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { shortHash } from '../../util/short-hash.ts'
import { type Answer, plain, type Route, type Routes } from '../admin-routes.ts'
import type { StatusInput } from '../status-document.ts'
import { healthSentence } from './page-head.ts'
import type { Viewers } from './viewers.ts'
import { mostViewers } from './viewers.ts'

interface PageDeps {
  readonly viewers: Pick<Viewers, 'join' | 'takes'>
  /** All but what the relay has to be asked for. */
  readonly status: () => StatusInput
  /** Where the build puts what browsers get. */
  readonly folder?: URL
}

/** Nothing from elsewhere, no script but its own files, no frame of another site. */
const guarded = {
  'Content-Security-Policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self' data:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-cache',
}

const contentTypes: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
}

/** The live page: `/`, its files, and `/stream`, by which it learns what changes. */
export const pageRoutes = ({
  viewers,
  status,
  folder = new URL('../../page/', import.meta.url),
}: PageDeps): Routes => {
  const files = existsSync(folder) ? readdirSync(folder) : []
  return new Map<string, Route>([
    ['/', { answer: () => firstPage(folder, status()) }],
    ...files
      .filter(name => /\.(?:js|css)$/.test(name))
      .map(name => [`/page/${name}`, fileRoute(new URL(name, folder))] as const),
    [
      '/stream',
      {
        unlisted: true,
        notForOtherSites: true,
        answer: (_given, client) => streamTo(viewers, client),
      },
    ],
    [
      '/stream/taken',
      {
        unlisted: true,
        notForOtherSites: true,
        query: asked => new URLSearchParams(asked).get('viewer') ?? '',
        answer: viewer => takenBy(viewers, viewer),
      },
    ],
  ])
}

const firstPage = async (folder: URL, status: StatusInput): Promise<Answer> => {
  const page = await readFile(new URL('page.html', folder), 'utf8')
  const sentence = escaped(healthSentence(status, Date.now()))
  return file(
    'html',
    page.replace('{{health}}', () => sentence),
  )
}

/** Text for HTML: names in it are the cluster's. */
const escaped = (text: string): string =>
  text.replaceAll(/[&<>"']/g, char => `&#${char.charCodeAt(0)};`)

const fileRoute = (url: URL): Route => ({
  unlisted: true,
  answer: async () =>
    file(/\w+$/.exec(url.pathname)?.[0] ?? '', await readFile(url, 'utf8')),
})

const file = (kind: string, body: string): Answer => ({
  status: 200,
  contentType: contentTypes[kind] ?? 'text/plain',
  body,
  headers: { ...guarded, ETag: `"${shortHash(body)}"` },
})

const takenBy = (viewers: Pick<Viewers, 'takes'>, viewer: string): Answer =>
  viewers.takes(viewer) ? plain(200, 'ok') : plain(404, 'there is no such viewer')

const streamTo = (viewers: Pick<Viewers, 'join'>, client: string): Answer => {
  const body = viewers.join(client)
  return body === undefined
    ? plain(
        503,
        `${mostViewers} watch already, and no more can; close another page: the log says where from they watch`,
      )
    : {
        status: 200,
        contentType: 'text/event-stream',
        body,
        // For proxies on the way, which would keep it together.
        headers: { ...guarded, 'Cache-Control': 'no-store', 'X-Accel-Buffering': 'no' },
      }
}
