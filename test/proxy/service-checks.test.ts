import t from 'tap'
import { readyEndpoint } from '../../src/model/service.ts'
import { ServiceChecks } from '../../src/proxy/service-checks.ts'
import { systemClock } from '../../src/util/clock.ts'
import { recordingLog } from '../support/recording-log.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { tcpBackend } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'

t.test('two Services with the same endpoints, of which one asks for checks', async t => {
  const said: string[] = []
  const turned: string[] = []
  const checks = new ServiceChecks({
    clock: systemClock,
    log: recordingLog(said),
    changed: service => void turned.push(service),
  })
  t.teardown(() => checks.close())
  const backend = await tcpBackend(t, socket => void socket.end())
  const here = { ...readyEndpoint(testHost), port: backend.endpoint.port }
  const refusing = { ...readyEndpoint(testHost), port: await freeTcpPort() }
  const endpoints = [here, refusing]
  const downIn = (service: string) =>
    endpoints.filter(one => checks.judge(service)(endpoints, {})(one).isDown)
  checks.watch(new Map([['shop/web', endpoints]]))
  await until('both are known', () => turned.length === 2)
  t.strictSame(turned, ['shop/web', 'shop/web'])
  t.strictSame(said, ['an endpoint is down'])
  t.strictSame(downIn('shop/web'), [refusing])
  t.strictSame(downIn('shop/other'), [])
  checks.watch(new Map())
  t.strictSame(downIn('shop/web'), [], 'the annotation is gone, and so is what it found')
})
