import t from 'tap'
import { type Results, resultsOf } from './specs.ts'
import { surprises, tableOf } from './verdicts.ts'

const spec = (name: string, State: string, Message = '') => ({
  LeafNodeType: 'It',
  ContainerHierarchyTexts: ['[sig-network] Services'],
  LeafNodeText: name,
  State,
  RunTime: 1_500_000_000,
  Failure: { Message },
})

const results = (...specs: readonly object[]): Results =>
  new Map(resultsOf(JSON.stringify([{ SpecReports: specs }])))

t.test('reports of ginkgo', async t => {
  const read = results(
    spec('pass [LinuxOnly] [Conformance]', 'passed'),
    spec('hang', 'timedout', 'too late'),
    spec('have no place here', 'skipped', 'needs two nodes'),
    spec('were not asked for', 'skipped'),
    { ...spec('set up', 'failed'), LeafNodeType: 'BeforeSuite' },
  )
  t.strictSame(
    [...read],
    [
      ['Services pass', { verdict: 'passed', seconds: 1.5, message: '' }],
      ['Services hang', { verdict: 'failed', seconds: 1.5, message: 'too late' }],
      [
        'Services have no place here',
        { verdict: 'skipped', seconds: 1.5, message: 'needs two nodes' },
      ],
    ],
  )
})

t.test('what is other than expected', async t => {
  const byWay = new Map([
    ['kube-proxy', results(spec('a', 'passed'), spec('b', 'passed'))],
    ['userspace', results(spec('a', 'failed', 'no'), spec('b', 'failed', 'why'))],
    ['nothing', results()],
  ])
  const expected = [
    { spec: 'Services a', ways: ['userspace'], verdict: 'failed', why: 'address' },
  ] as const
  t.strictSame(surprises(byWay, expected), [
    'userspace: Services b: failed, expected: passed: why',
    'nothing: no spec ran',
  ])
  t.equal(
    tableOf(byWay, expected),
    [
      '| spec | kube-proxy | userspace | nothing |',
      '| --- | --- | --- | --- |',
      '| Services a | P | F | - |',
      '| Services b | P | **F** | - |',
      '| all | 2 P, 0 F, 0 S | 0 P, 2 F, 0 S | 0 P, 0 F, 0 S |',
    ].join('\n'),
  )
  const late = new Map([['userspace', results(spec('a', 'passed'))]])
  t.strictSame(
    surprises(late, expected),
    ['userspace: Services a: passed, expected: failed'],
    'a row of the list that is no longer true is told, too',
  )
})
