import { readFileSync } from 'node:fs'
import t from 'tap'
import { fieldPaths } from '../../src/config/kube-proxy/configuration.ts'
import { acceptedBy } from '../../src/config/options.ts'
import {
  countedTable,
  kernelTables,
  loopbackTable,
} from '../../src/observe/rule-metrics-table.ts'
import { manifestFile, service } from '../support/manifests.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { get, startUsher } from '../support/usher.ts'

const page = readFileSync(
  new URL('../../docs/kube-proxy-compat.md', import.meta.url),
  'utf8',
)

/** The rows of all tables under a heading, without those that head them. */
const rowsUnder = (heading: string): readonly (readonly string[])[] => {
  const [, rest = ''] = page.split(`\n## ${heading}\n`)
  const [section = ''] = rest.split(/\n## /)
  const lines = section.split('\n').filter(line => line.startsWith('|'))
  return lines
    .filter((line, index) => !isRule(line) && !isRule(lines[index + 1] ?? ''))
    .map(line => line.split('|').slice(1, -1))
}

/** What lies between the head of a table and its rows. */
const isRule = (line: string): boolean => /^\|(?: -+ \|)+$/.test(line)

const codes = (cell = ''): readonly string[] =>
  [...cell.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code)

/** What the first column names; a name that is there twice stays twice. */
const named = (heading: string): readonly string[] =>
  rowsUnder(heading)
    .flatMap(([first]) => codes(first))
    .toSorted()

const verdicts = new Set(['same', 'better', 'other', 'no effect', 'not yet', 'not'])

t.test('every flag of run has its row, and nothing else has', async t => {
  const flags = acceptedBy('run').map(([flag]) => (flag === 'v' ? '-v' : `--${flag}`))
  t.strictSame(named('Flags'), flags.toSorted())
})

t.test('flags that do nothing stand apart from those that do something', async t => {
  const without = acceptedBy('run').filter(([, row]) => row.noEffect !== undefined)
  const rows = rowsUnder('Flags').filter(row =>
    /no effect|not yet/.test(row.at(-1) ?? ''),
  )
  t.strictSame(
    rows.flatMap(([first]) => codes(first)).toSorted(),
    without.map(([flag]) => `--${flag}`).toSorted(),
  )
})

t.test('every field of the configuration has its row, and nothing else has', async t => {
  t.strictSame(named('Configuration file'), [...fieldPaths].toSorted())
})

t.test('verdicts are those that the page explains', async t => {
  for (const heading of ['Configuration file', 'Services', 'Endpoints', 'API server']) {
    const rows = rowsUnder(heading)
    t.ok(rows.length > 5, heading)
    const strange = rows.filter(row => !verdicts.has(row.at(-1)?.trim() ?? ''))
    t.strictSame(strange, [], heading)
  }
})

t.test('metrics of the kernel modes are those that the page names', async t => {
  const families = [
    ...Object.values(kernelTables).flat(),
    ...countedTable,
    ...loopbackTable,
  ]
  const names = new Set(families.map(({ name }) => name))
  t.strictSame(named('Metrics of the kernel modes'), [...names].toSorted())
})

t.test('what a running Usher answers is what the page says', async t => {
  const web = service('web', testHost, [{ name: 'p', port: await freeTcpPort() }])
  const file = await manifestFile(t, web)
  const usher = await startUsher(t, 'run', '--manifests', file.path)

  await t.test('metrics of kube-proxy and of Usher', async t => {
    const { body } = await get(usher.metrics, '/metrics')
    const scraped = [...body.matchAll(/^# TYPE (\S+)/gm)].map(([, name = '']) => name)
    const own = /^(?:kubeproxy|usher)_/
    const present = rowsUnder('Metrics').filter(row => row.at(-1)?.trim() !== 'not')
    t.strictSame(
      present
        .flatMap(([first]) => codes(first))
        .filter(name => own.test(name))
        .toSorted(),
      scraped.filter(name => own.test(name)).toSorted(),
    )
    // The others may need the Kubernetes API as a source.
    for (const name of scraped.filter(each => !own.test(each)))
      t.ok(page.includes(`\`${name}\``), name)
  })

  await t.test('endpoints', async t => {
    const cells = rowsUnder('HTTP endpoints').map(([first = '']) => first)
    for (const [address, port] of [
      [usher.metrics, '10249'],
      [usher.healthz, '10256'],
    ] as const) {
      const { status, body } = await get(address, '/nothing')
      t.equal(status, 404)
      const [, list = ''] = /there are (.*)/.exec(body) ?? []
      t.strictSame(
        list.split(', ').toSorted(),
        cells
          .filter(cell => cell.includes(port))
          .flatMap(cell => codes(cell))
          .toSorted(),
      )
    }
  })
})
