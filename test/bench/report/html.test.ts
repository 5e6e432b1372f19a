import { readFileSync, writeFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import type { RunRecord } from '../../../bench/record/record.ts'
import { htmlReport } from '../../../bench/report/html.ts'
import { overviewSvg, pictures, scenarioSvg } from '../../../bench/report/svg/pictures.ts'
import { interruptedRecord, largeRecord } from './large-record.ts'
import { smallRecord } from './small-record.ts'
import { malformed } from './well-formed.ts'

const empty: RunRecord = {
  ...smallRecord,
  startedAt: 'yesterday',
  seconds: NaN,
  versions: {},
  setting: [],
  targets: [],
  leftOut: [],
  yardsticks: [],
  scenarios: [],
}

const single: RunRecord = {
  ...smallRecord,
  targets: smallRecord.targets.filter(({ name }) => name === 'usher'),
}

const onlyGiven: RunRecord = {
  ...smallRecord,
  targets: smallRecord.targets.filter(({ kind }) => kind !== 'usher'),
}

/** JSON has no NaN, but a record in memory may. */
const odd: RunRecord = {
  ...smallRecord,
  scenarios: smallRecord.scenarios.map((scenario, index) => ({
    ...scenario,
    metrics: index === 0 ? scenario.metrics : [],
    outcomes: [NaN, Infinity, -5, 0].map((rate, round) => ({
      target: round % 2 === 0 ? 'usher' : 'direct',
      round,
      sample: { figures: { rate }, errors: {} },
    })),
  })),
}

/** Figures that are told as `<1`. */
const tiny: RunRecord = {
  ...smallRecord,
  scenarios: smallRecord.scenarios.map(scenario => ({
    ...scenario,
    outcomes: scenario.outcomes.map(outcome =>
      'sample' in outcome
        ? { ...outcome, sample: { figures: { rate: 0.001, p99: 0.001 }, errors: {} } }
        : outcome,
    ),
  })),
}

const records = {
  large: largeRecord(),
  interrupted: interruptedRecord(),
  small: smallRecord,
  empty,
  single,
  onlyGiven,
  odd,
  tiny,
}

/** Golden files are written anew with `GOLDEN=write`; look at them before they are committed. */
const matchesGolden = (t: Pick<Test, 'equal'>, name: string, text: string): void => {
  const path = new URL(`./golden/${name}`, import.meta.url)
  if (process.env['GOLDEN'] === 'write') writeFileSync(path, text)
  t.equal(text, readFileSync(path, 'utf8'), name)
}

t.test('a small run gives the same page and pictures, byte for byte', async t => {
  matchesGolden(t, 'small-run.html.golden', htmlReport(smallRecord))
  for (const [name, svg] of pictures(smallRecord))
    matchesGolden(t, `small-run-${name}`, svg)
})

for (const [name, record] of Object.entries(records)) {
  t.test(`the report of a record (${name}) is sound`, async t => {
    const html = htmlReport(record)
    t.equal(malformed(html.replace('<!doctype html>', '')), '')
    t.notMatch(html, /NaN|undefined|Infinity|\[object/)
    t.notMatch(
      html,
      /<script|<link|<img|\bsrc=|url\(|@import|https?:\/\//,
      'nothing is loaded',
    )
    const ids = [...html.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id)
    t.equal(new Set(ids).size, ids.length, 'no id twice')
    for (const [, anchor] of html.matchAll(/href="#([^"]*)"/g)) t.ok(ids.includes(anchor))
  })

  t.test(`the pictures of a record (${name}) are sound`, async t => {
    for (const [file, svg] of pictures(record)) {
      t.match(file, /^[a-z0-9-]+\.svg$/)
      t.equal(malformed(svg), '', file)
      t.match(svg, /^<svg xmlns="http:\/\/www.w3.org\/2000\/svg" /)
      t.notMatch(svg, /NaN|undefined|Infinity|\[object/)
    }
  })
}

t.test('what comes from outside is text, never markup', async t => {
  const html = htmlReport(smallRecord)
  t.match(html, '&#60;script&#62;alert(1)&#60;/script&#62;')
  t.match(html, '6 × &#34;&#62;&#60;script&#62;')
  t.match(html, '<p><strong>a&#60;b&#62;</strong>: &#34;given&#34; &#38; so on</p>')
})

t.test('the overview tells the ratio and who was ahead', async t => {
  const html = htmlReport(smallRecord)
  t.match(html, /<td class="detour" title="0\.50 [^"]*">0\.50<small>worse<\/small><\/td>/)
  t.match(html, /<td class="even" title="even \(0\.99\.\.1\.00\) [^"]*">even<\/td>/)
  const ofLatency = html.slice(html.indexOf('>Latency at a fixed rate</th>'))
  t.match(
    ofLatency,
    /^.*\n.*<td class="better-\d" [^>]*>0\.68<small>better<\/small><\/td>/,
  )
  t.match(ofLatency, /^.*\n.*<td class="worse-\d" [^>]*>1\.91<small>worse<\/small><\/td>/)
})

t.test('what failed and what was left out is seen, with the reason', async t => {
  const html = htmlReport(records.large)
  t.match(html, 'failed: nginx ended with code 1')
  t.match(html, '<small>nginx failed</small>')
  t.match(html, '<td class="bad">failed</td>')
  t.match(html, '1 of 6 runs failed: no answer from the generator in 13 s')
  t.match(html, /\d+,\d+ echo\/s !, more is better/, 'in the overview as well')
  t.match(html, 'ipvs: the kernel has no module ip_vs')
  t.match(html, 'left out: there is no proxy to measure')
})

t.test('only an interrupted run says so', async t => {
  t.match(htmlReport(records.interrupted), 'This run was interrupted')
  t.notMatch(htmlReport(records.large), 'This run was interrupted')
})

t.test('there is a picture of the overview and one of each group', async t => {
  t.strictSame(
    [...pictures(smallRecord).keys()],
    ['overview.svg', 'requests.svg', 'latency.svg'],
  )
  t.equal(overviewSvg(single), undefined, 'nobody to compare')
  const [, scenario] = smallRecord.scenarios
  t.match(scenario && scenarioSvg(smallRecord, scenario), 'At half of capacity')
})
