import t, { type Test } from 'tap'
import { connectToCluster } from '../../../src/source/kubernetes/cluster-access.ts'
import {
  EventRecorder,
  type ClusterEvent,
} from '../../../src/source/kubernetes/event-recorder.ts'
import { startApiServer } from '../../support/api-server/for-test.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { until } from '../../support/until.ts'

const starting: ClusterEvent = {
  type: 'Normal',
  reason: 'Starting',
  action: 'StartKubeProxy',
  message: '',
  regarding: { kind: 'Node', name: 'node-1', namespace: '' },
}
const failed: ClusterEvent = {
  type: 'Warning',
  reason: 'FailedToStartServiceHealthcheck',
  action: 'Listen',
  message: 'port 30000 is taken '.repeat(100),
  regarding: { kind: 'Service', name: 'web', namespace: 'shop', uid: 'some-uid' },
}

const fixture = async (t: Test) => {
  const api = await startApiServer(t)
  const clock = new FakeClock()
  const access = { kubeconfig: api.kubeconfig(), master: '', qps: -1, version: '0' }
  const client = await connectToCluster(access)
  const failures: string[] = []
  const onFailure = (why: string) => void failures.push(why)
  const recorder = new EventRecorder({
    requests: client,
    instance: 'n1',
    clock,
    onFailure,
  })
  t.teardown(async () => {
    await recorder.close()
    client.close()
  })
  const sent = () => api.objects('events')
  return { api, clock, recorder, failures, sent }
}

t.test('an Event about a Node is in default, and names the Node as its uid', async t => {
  const { recorder, sent } = await fixture(t)
  recorder.emit(starting)
  await until('the Event', () => sent().length === 1)
  t.match(sent()[0], {
    apiVersion: 'events.k8s.io/v1',
    metadata: { namespace: 'default', name: /^node-1\.[0-9a-f]{16}$/ },
    eventTime: /^\d{4}-.*\.\d{6}Z$/,
    reportingController: 'kube-proxy',
    reportingInstance: 'kube-proxy-n1',
    reason: 'Starting',
    action: 'StartKubeProxy',
    regarding: { kind: 'Node', name: 'node-1', uid: 'node-1' },
    type: 'Normal',
  })
})

t.test(
  'an Event about a Service is in its namespace, its note is not too long',
  async t => {
    const { recorder, sent } = await fixture(t)
    recorder.emit(failed)
    await until('the Event', () => sent().length === 1)
    t.match(sent()[0], {
      metadata: { namespace: 'shop' },
      regarding: { kind: 'Service', namespace: 'shop', name: 'web', uid: 'some-uid' },
    })
    t.equal(String(sent()[0]?.['note']).length, 1024)
  },
)

t.test('the same Event within six minutes is counted, after that it is new', async t => {
  const { api, clock, recorder, sent } = await fixture(t)
  recorder.emit(starting)
  await until('the Event', () => sent().length === 1)
  recorder.emit(starting)
  clock.advance(60_000)
  recorder.emit(starting)
  await until('the count', () => sent()[0]?.['series'] !== undefined)
  t.match(sent()[0], { series: { count: 3 } })
  t.equal(api.requests.of('events').length, 2)
  clock.advance(6 * 60_000)
  recorder.emit(starting)
  await until('another', () => sent().length === 2)
})

t.test('Events that are refused are counted and said once', async t => {
  const { api, recorder, failures, sent } = await fixture(t)
  const remove = api.faults.add({ kind: 'status', code: 403 })
  recorder.emit(starting)
  recorder.emit(failed)
  await until('two refusals', () => recorder.failures === 2)
  t.equal(failures.length, 1)
  t.match(failures[0], /^cannot send events: 403 /)
  remove()
  recorder.emit({ ...starting, reason: 'Later' })
  await until('the next', () => sent().length === 1)
})

t.test('a server that is busy is asked again', async t => {
  const { api, clock, recorder, sent } = await fixture(t)
  api.faults.add({ kind: 'status', code: 503 }, { times: 1 })
  recorder.emit(starting)
  await until('the pause', () => clock.waiting === 1)
  clock.advance(999)
  t.equal(clock.waiting, 1, 'no sooner than after a second')
  clock.advance(1001)
  await until('the Event', () => sent().length === 1)
  t.equal(recorder.failures, 0)
})

t.test('what waits is bounded', async t => {
  const { api, recorder } = await fixture(t)
  api.faults.add({ kind: 'stall' })
  for (let i = 0; i < 200; i++) recorder.emit({ ...starting, reason: `R${i}` })
  t.ok(recorder.failures >= 99 && recorder.failures <= 101, `${recorder.failures}`)
  await recorder.close()
})
