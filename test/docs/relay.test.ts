import { existsSync, readFileSync } from 'node:fs'
import t from 'tap'
import { relay } from '../../src/config/options/relay.ts'

const top = new URL('../../', import.meta.url)
const read = (path: string): string => readFileSync(new URL(path, top), 'utf8')

/** The rows of a table that has `head` in its first line, by cell. */
const rowsOf = (page: string, head: string): readonly (readonly string[])[] => {
  const lines = page.split('\n')
  const first = lines.findIndex(line => line.startsWith('|') && line.includes(head)) + 2
  const end = lines.findIndex((line, i) => i >= first && !line.startsWith('|'))
  return lines.slice(first, end).map(line => line.split('|').map(cell => cell.trim()))
}

const codes = (cell = ''): readonly string[] =>
  [...cell.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code)

t.test('every option of the relay has advice, and its default', async t => {
  const rows = rowsOf(read('docs/relay.md'), 'advice')
  const advised = new Map(
    rows.map(([, flag, value = '']) => [codes(flag)[0], value.split(':')[0]]),
  )
  for (const [flag, row] of Object.entries(relay)) {
    t.equal(advised.get(`--${flag}`)?.replaceAll('`', ''), row.default, flag)
  }
})

t.test('files that the architecture names for the relays are there', async t => {
  const page = read('docs/architecture.md')
  const folders = ['engine/', 'sockets/linux/', 'sockets/node/', 'remote/', 'supervised/']
  for (const folder of ['', ...folders]) {
    const rows = rowsOf(page, `in \`src/relay/${folder}\``)
    t.ok(rows.length > 3, folder)
    for (const name of rows.flatMap(([, cell]) => codes(cell))) {
      const file = `src/relay/${folder}${name}`
      t.ok(existsSync(new URL(file, top)), file)
    }
  }
})

t.test('files that the page for developers names are there', async t => {
  const text = read('CONTRIBUTING.md').replaceAll(/```[^]*?```/g, '')
  const named = codes(text).filter(code => /^[\w-]+\/[\w./-]+\.ts$/.test(code))
  t.ok(named.length > 15, String(named.length))
  for (const path of named) {
    const isThere = [path, `src/${path}`].some(one => existsSync(new URL(one, top)))
    t.ok(isThere, path)
  }
})

t.test('the image has the optional dependency that the Linux relay needs', async t => {
  const dockerfile = read('Dockerfile')
  t.match(dockerfile, /npm ci --omit=dev /)
  t.notMatch(dockerfile, '--omit=optional')
  t.match(read('package-lock.json'), '@koromix/koffi-linux-arm64')
})

t.test('calls that the page on seccomp names are those that the relay makes', async t => {
  const [, named = ''] =
    /What it calls besides what Node calls anyway is([^]*?)\. The default/.exec(
      read('deploy/kubernetes/README.md'),
    ) ?? []
  const names = new Set(codes(named))
  const [, made = ''] =
    /export interface Syscalls \{([^]*?)\n\}/.exec(read('src/ffi/syscalls.ts')) ?? []
  const calls = [...made.matchAll(/^ {2}(\w+)\(/gm)].map(([, name = '']) => name)
  const unlike: Readonly<Record<string, string>> = {
    accept: 'accept4',
    recv: 'recvfrom',
    send: 'sendto',
    pipe: 'pipe2',
    epollCreate: 'epoll_create1',
    epollCtl: 'epoll_ctl',
    epollWait: 'epoll_wait',
    eventfd: 'eventfd2',
  }
  const ofNode = /^(allocate|socket|bind|listen|connect|close|read|write)$/
  t.ok(calls.length > 20)
  for (const call of calls.filter(name => !ofNode.test(name))) {
    t.ok(names.has(unlike[call] ?? call), call)
  }
})
