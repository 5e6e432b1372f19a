import t from 'tap'
import { askedMode } from '../../src/cli/cluster-parts.ts'
import type { ModeRequest } from '../../src/mode/fallback-mode.ts'
import { type ModeAnnotation, modeAnnotation } from '../../src/source/decode/node.ts'
import { recordingLog } from '../support/recording-log.ts'

const beta = 'net.beta.kubernetes.io/proxy-mode'
const experimental = 'net.experimental.kubernetes.io/proxy-mode'

const nodeWith = (annotations: unknown) => ({ items: [{ metadata: { annotations } }] })

t.test('the beta annotation of a Node comes before the experimental one', async t => {
  const both = nodeWith({ [beta]: 'userspace', [experimental]: 'iptables' })
  t.strictSame(modeAnnotation(both), { name: beta, value: 'userspace' })
  const one = nodeWith({ [experimental]: 'iptables', [beta]: '' })
  t.strictSame(modeAnnotation(one), { name: experimental, value: 'iptables' })
  for (const none of [nodeWith(undefined), nodeWith(null), nodeWith({}), { items: [] }])
    t.equal(modeAnnotation(none), undefined)
  for (const strange of [undefined, 'x', nodeWith({ [beta]: 1 }), nodeWith('x')])
    t.equal(modeAnnotation(strange), undefined)
})

const ask = async (
  request: ModeRequest,
  annotation: () => Promise<ModeAnnotation | undefined>,
) => {
  const said: string[] = []
  const log = recordingLog(said)
  const { mode, by } = await askedMode(request, annotation, log)
  return [`${mode} by ${by}`, ...said]
}

const empty: ModeRequest = { mode: '', by: '' }

t.test('the Node is asked only where nothing else says which mode', async t => {
  const never = async (): Promise<undefined> => void t.fail('it was asked')
  t.strictSame(await ask({ mode: 'ipvs', by: '--proxy-mode' }, never), [
    'ipvs by --proxy-mode',
  ])
  for (const value of ['userspace', 'iptables', 'nftables', 'ipvs'])
    t.strictSame(await ask(empty, async () => ({ name: beta, value })), [
      `${value} by annotation ${beta} of the Node`,
    ])
  t.strictSame(await ask(empty, async () => undefined), [' by '])
})

t.test('an annotation that names no mode is warned of', async t => {
  t.match(await ask(empty, async () => ({ name: beta, value: 'best' })), [
    ' by ',
    /is not a proxy mode/,
  ])
})

t.test('a Node that can’t be read asks for nothing', async t => {
  t.match(await ask(empty, () => Promise.reject(new Error('403'))), [
    ' by ',
    /cannot read the proxy mode annotation/,
  ])
})
