import t from 'tap'
import { chooseSandbox } from '../../../bench/sandbox/sandbox.ts'
import { choices, refusing } from './kinds.ts'

t.test('a host without a tool is told which, and in which package it is', async t => {
  const path = process.env['PATH']
  t.teardown(() => (process.env['PATH'] = path))
  process.env['PATH'] = '/nonexistent'
  const { kind, why } = await chooseSandbox(undefined, 'linux')
  t.equal(kind, undefined)
  t.match(why, /^not installed: .*unshare \(Debian package util-linux\)/)
})

t.test('another system than Linux is told that it has no namespaces', async t => {
  const { kind, why } = await chooseSandbox(undefined, 'darwin')
  t.equal(kind, undefined)
  t.equal(why, 'darwin has no network namespaces')
})

t.test('where both ways are refused, the first line of each refusal is told', async t => {
  const { kind, why } = await chooseSandbox(refusing('both'), 'linux')
  t.equal(kind, undefined)
  t.match(why, "network namespaces can't be made here: ")
  t.match(why, 'unshare: no, not to a user')
  t.notMatch(why, 'more')
})

const { here, asUser } = choices
const skip = here.kind === undefined && here.why
const skipUser = asUser.kind === undefined && asUser.why

t.test('root gets namespaces by privilege', { skip }, async t => {
  t.strictSame(here, { kind: process.getuid?.() === 0 ? 'root' : 'user', why: '' })
})

t.test('without privilege a user namespace is taken', { skip: skipUser }, async t => {
  t.strictSame(asUser, { kind: 'user', why: '' })
})
