import { writeFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { unknownFields } from '../../src/cli/check-fields.ts'

const faultsOf = async (t: Test, text: string, name = 'a.yaml') => {
  const path = `${t.testdir({ [name]: text })}/${name}`
  const { faults, left } = await unknownFields([path])
  t.strictSame(left, [])
  return faults.map(fault => fault.replace(path, name))
}

const meta = 'metadata: {name: web, annotations: {any: thing}, labels: {of: all}}'

t.test('what Kubernetes does not know is found, with its place', async t => {
  const service = [
    'apiVersion: v1',
    'kind: Service',
    meta,
    'spec:',
    '  selector: {sesionAffinity: is-a-label}',
    '  sesionAffinity: ClientIP',
    '  ports:',
    '  - {name: a, port: 80}',
    '  - {name: b, protcol: UDP, port: 80}',
    '  zebra: 1',
    'statuz: {}',
  ].join('\n')
  t.strictSame(await faultsOf(t, service), [
    'a.yaml:6:3: unknown field "sesionAffinity" in spec; did you mean sessionAffinity?',
    'a.yaml:9:15: unknown field "protcol" in spec.ports[1]; did you mean protocol?',
    'a.yaml:10:3: unknown field "zebra" in spec',
    'a.yaml:11:1: unknown field "statuz" at the top; did you mean status?',
  ])
})

t.test('in each document, in Lists and in JSON', async t => {
  const slice = 'apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice'
  const endpoints = 'endpoints: [{adresses: [10.0.0.1], hints: {forZones: [{nam: x}]}}]'
  const two = `kind: Srevice\napiVersion: v1\n---\n${slice}\n${meta}\n${endpoints}\n`
  t.strictSame(await faultsOf(t, two), [
    'a.yaml:1:7: unknown kind "Srevice"; did you mean Service?',
    'a.yaml:7:14: unknown field "adresses" in endpoints[0]; did you mean addresses?',
    'a.yaml:7:56: unknown field "nam" in endpoints[0].hints.forZones[0]; did you mean name?',
  ])
  const list = {
    apiVersion: 'v1',
    kind: 'List',
    items: [{ apiVersion: 'v1', kind: 'Service', spek: {} }],
  }
  t.strictSame(await faultsOf(t, JSON.stringify(list), 'a.json'), [
    'a.json:1:79: unknown field "spek" at the top; did you mean spec?',
  ])
})

t.test('what is no object of these kinds, or no YAML, has nothing unknown', async t => {
  for (const text of [
    'apiVersion: apps/v1\nkind: Deployment\nspecc: 1',
    'apiVersion: v1\nkind: Node\nmetadata: {name: n}\nspec: {podCIDRs: []}',
    'a: [',
    '- 1',
    'null',
    'base: &b {port: 80}\n---\napiVersion: v1\nkind: Service\nspec: {ports: [{<<: {port: 80}, name: p}]}',
  ])
    t.strictSame(await faultsOf(t, text), [], text)
})

t.test('a large file is not looked at, and that is told', async t => {
  const path = `${t.testdir({})}/a.yaml`
  writeFileSync(path, `# ${'x'.repeat(5 << 20)}\n`)
  t.strictSame(await unknownFields([path]), { faults: [], left: [path] })
})
