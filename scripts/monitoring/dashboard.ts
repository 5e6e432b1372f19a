import { choices, type Panel, rows, type Row } from './panels.ts'

const datasource = { type: 'prometheus', uid: '${datasource}' }

/** Grafana's grid has 24 columns. */
const columns = 24
const sizeOf = ({ stat }: Panel) => (stat ? { w: 4, h: 4 } : { w: 8, h: 8 })

/** Numbers for panels, from 1. */
const numbers = (): (() => number) => {
  let last = 0
  return () => (last += 1)
}

const kindOf = ({ stat, unit }: Panel): object => {
  if (stat === undefined)
    return {
      type: 'timeseries',
      fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
      options: {
        legend: { displayMode: 'list', placement: 'bottom', showLegend: true },
        tooltip: { mode: 'multi', sort: 'desc' },
      },
    }
  const { redFrom } = stat
  const steps = [
    { color: redFrom === undefined ? 'text' : 'green', value: null },
    ...(redFrom === undefined ? [] : [{ color: 'red', value: redFrom }]),
  ]
  const thresholds = { mode: 'absolute', steps }
  return {
    type: 'stat',
    fieldConfig: { defaults: { unit, thresholds }, overrides: [] },
    options: {
      colorMode: 'value',
      graphMode: 'none',
      reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
    },
  }
}

const refIds = 'ABCDEFGH'

const panelOf = (panel: Panel, id: number, place: { x: number; y: number }): object => ({
  id,
  title: panel.title,
  ...(panel.hint !== undefined && { description: panel.hint }),
  datasource,
  gridPos: { ...sizeOf(panel), ...place },
  ...kindOf(panel),
  targets: panel.queries.map(([legendFormat, expr], i) => ({
    refId: refIds[i],
    datasource,
    expr,
    ...(legendFormat !== '' && { legendFormat }),
    ...(panel.stat && { instant: true }),
  })),
})

/** All panels, from left to right and from above, with a line for each row's title. */
const placed = (all: readonly Row[]): readonly object[] => {
  const next = numbers()
  let y = 0
  return all.flatMap(({ title, panels }) => {
    const heading = {
      id: next(),
      type: 'row',
      title,
      collapsed: false,
      gridPos: { x: 0, y, w: columns, h: 1 },
      panels: [],
    }
    y += 1
    let [x, height] = [0, 0]
    const shown = panels.map(panel => {
      const { w, h } = sizeOf(panel)
      if (x + w > columns) {
        y += height
        ;[x, height] = [0, 0]
      }
      const made = panelOf(panel, next(), { x, y })
      x += w
      height = Math.max(height, h)
      return made
    })
    y += height
    return [heading, ...shown]
  })
}

/** Grafana's dashboard, as it is imported. */
export const dashboard = {
  uid: 'usher',
  title: 'Usher',
  description: 'Made by `npm run docs` from scripts/monitoring/: change it there.',
  tags: ['usher', 'kubernetes'],
  schemaVersion: 39,
  version: 1,
  editable: true,
  graphTooltip: 1,
  refresh: '1m',
  time: { from: 'now-3h', to: 'now' },
  timezone: 'browser',
  annotations: { list: [] },
  links: [],
  templating: {
    list: [
      {
        name: 'datasource',
        label: 'Data source',
        type: 'datasource',
        query: 'prometheus',
      },
      ...choices.map(({ name, query, all }) => ({
        name,
        type: 'query',
        datasource,
        definition: query,
        query: { query, refId: name },
        refresh: 2,
        sort: 1,
        includeAll: true,
        multi: true,
        allValue: all,
        current: { selected: true, text: ['All'], value: ['$__all'] },
      })),
    ],
  },
  panels: placed(rows),
}
