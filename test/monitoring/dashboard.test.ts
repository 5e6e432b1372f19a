import { readFileSync } from 'node:fs'
import t from 'tap'
import { top } from '../support/deploy.ts'

interface Place {
  readonly x: number
  readonly y: number
  readonly w: number
  readonly h: number
}

interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly datasource?: { readonly uid: string }
  readonly gridPos: Place
  readonly targets?: readonly {
    readonly refId: string
    readonly expr: string
    readonly datasource: { readonly uid: string }
  }[]
}

interface Dashboard {
  readonly uid: string
  readonly schemaVersion: number
  readonly panels: readonly Panel[]
  readonly templating: { readonly list: readonly { readonly name: string }[] }
}

const text = readFileSync(`${top}deploy/monitoring/dashboard.json`, 'utf8')
const { uid, schemaVersion, panels, templating } = JSON.parse(text) as Dashboard
const shown = panels.filter(({ type }) => type !== 'row')

const overlap = (a: Place, b: Place): boolean =>
  a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h

t.test('panels have numbers and places of their own', async t => {
  t.equal(new Set(panels.map(({ id }) => id)).size, panels.length)
  for (const [i, { title, gridPos }] of panels.entries()) {
    t.ok(gridPos.x + gridPos.w <= 24, title)
    const twin = panels.find((other, k) => k > i && overlap(gridPos, other.gridPos))
    t.equal(twin?.title, undefined, title)
  }
  t.equal(new Set(shown.map(({ title }) => title)).size, shown.length, 'and titles')
})

t.test('they ask the data source that is chosen, and are of Grafana itself', async t => {
  t.strictSame([uid, schemaVersion >= 39], ['usher', true])
  for (const { title, type, datasource, targets = [] } of shown) {
    t.ok(['stat', 'timeseries'].includes(type), title)
    t.ok(targets.length > 0, title)
    for (const target of targets) t.equal(target.datasource.uid, '${datasource}', title)
    t.equal(datasource?.uid, '${datasource}', title)
    t.equal(new Set(targets.map(({ refId }) => refId)).size, targets.length, title)
  }
})

t.test('the variables that they name are there', async t => {
  const there = new Set(templating.list.map(({ name }) => name))
  for (const [, name = ''] of text.matchAll(/\$\{?(\w+)/g))
    t.ok(there.has(name) || name.startsWith('__'), name)
})
