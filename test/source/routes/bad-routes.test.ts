import t from 'tap'
import { readRoutes, readRoutesText } from '../../../src/source/routes/read-routes.ts'
import { parseRoute } from '../../../src/source/routes/route-flag.ts'
import { badFiles } from './bad-files.ts'
import { badFlags } from './bad-flags.ts'

t.test('each fault of a bad file is named by line, field and what is right', async t => {
  for (const [text, ...expected] of badFiles) {
    const { routes, faults } = await readRoutes(text)
    const name = JSON.stringify(text.slice(0, 100))
    t.strictSame(routes, [], name)
    const found = faults.map(({ line, field }) => `${line} ${field}`)
    const wanted = expected.map(([line, field]) => `${line} ${field}`)
    t.strictSame(found, wanted, `${name}: ${JSON.stringify(faults)}`)
    for (const [i, [, , message]] of expected.entries()) {
      const said = faults[i]?.message ?? ''
      t.ok(said.startsWith(message), `${name}: ${said}, not ${message}`)
    }
  }
})

t.test('a bad flag is named with each part that is wrong and what is right', async t => {
  for (const [text, ...parts] of badFlags) {
    let said = 'taken'
    try {
      parseRoute(text)
    } catch (error) {
      said = (error as Error).message
    }
    for (const part of parts) t.ok(said.includes(part), `${text}: ${said}, not ${part}`)
  }
})

t.test('these are five hundred', async t => {
  t.ok(badFiles.length + badFlags.length >= 500)
  t.ok(badFiles.length > 350, String(badFiles.length))
})

t.test('many faults are counted after the first hundred', async t => {
  const { faults } = await readRoutes(`routes:\n${'  - 7\n'.repeat(150)}`)
  t.equal(faults.length, 101)
  t.match(faults.at(-1), { line: 0, message: 'and 50 more faults' })
})

t.test('the largest files are refused before anybody notices', async t => {
  const fill = (text: string) => text.repeat(Math.floor((63 * 1024) / text.length))
  const texts = [
    `routes:\n${fill('  - 7\n')}`,
    `routes:\n${fill('  - {x: 1}\n')}`,
    `a: &a\n${fill('  - {listen: 7}\n')}routes: *a\n`,
    `routes: [{listen: tcp://127.0.0.1:1, endpoints: [${fill('a:1, ')}]}]`,
    `routes: [{${fill('replai: 1, ')}}]`,
    `routes: [{${'replai'.repeat(10_000)}: 1}]`,
  ]
  for (const text of texts) {
    const start = process.cpuUsage()
    const { faults } = await readRoutes(text)
    t.ok(faults.length > 0)
    const { user, system } = process.cpuUsage(start)
    const cpuMs = Math.round((user + system) / 1000)
    t.ok(cpuMs < 5000, `${cpuMs} ms of CPU: ${text.slice(0, 40)}`)
  }
})

t.test('what can’t be read as a file of routes says why', async t => {
  const dir = t.testdir({
    latin: Buffer.from('routes: [{name: "\xe4"}]', 'latin1'),
    utf16: Buffer.from('\uFEFFroutes: []', 'utf16le'),
    nul: Buffer.from('routes: []', 'utf16le'),
    huge: `routes: []\n${'#'.repeat(64 * 1024)}`,
    full: '#'.repeat(64 * 1024),
    bom: '\uFEFFroutes: []',
  })
  const cases: [string, RegExp][] = [
    [`${dir}/none`, /^there is no such file or directory$/],
    [dir, /^it is not a regular file$/],
    ['/dev/zero', /^it is not a regular file$/],
    ['/dev/null', /^it is not a regular file$/],
    [`${dir}/latin/x`, /ENOTDIR/],
    [`${dir}/latin`, /^it is not UTF-8 text$/],
    [`${dir}/utf16`, /^it is not UTF-8 text$/],
    [`${dir}/nul`, /^it contains NUL bytes; save it as UTF-8 text$/],
    [`${dir}/huge`, /^it is larger than 64 KiB; split it$/],
  ]
  for (const [path, message] of cases) await t.rejects(readRoutesText(path), { message })
  t.equal((await readRoutesText(`${dir}/full`)).length, 64 * 1024)
  t.equal(await readRoutesText(`${dir}/bom`), 'routes: []')
})

t.test('of many faults a few are told', async t => {
  const targets = Array.from({ length: 20_000 }, (_, i) => `bad-${i}`).join()
  const error = t.throws(() =>
    parseRoute(`tcp://127.0.0.1:1=${targets}`),
  ) as unknown as Error
  t.match(error.message, /^route "tcp:.*"bad-4" is not HOST:PORT .*; and 19995 more$/)
  t.ok(error.message.length < 5000, `${error.message.length} characters`)
})
