import t from 'tap'
import { AnnotationEvents } from '../../src/observe/state-log.ts'
import type { ClusterEvent } from '../../src/source/kubernetes/event-recorder.ts'

const problem = (name: string, key: string, message = 'is unknown') => ({
  object: `Service shop/${name}`,
  field: `metadata.annotations["usher-proxy.io/${key}"]`,
  message,
})

t.test('a Service gets one Event for each change of what is wrong with it', async t => {
  const sent: ClusterEvent[] = []
  const events = new AnnotationEvents(event => sent.push(event))
  const [a, b] = [problem('web', 'a'), problem('web', 'b')]
  const other = { object: 'Service shop/web', field: 'spec.ports[0]', message: 'is bad' }
  const node = { ...a, object: 'Node n' }
  events.report([other, a, b, node])
  events.report([a, b])
  t.strictSame(sent, [
    {
      type: 'Warning',
      reason: 'AnnotationWithoutEffect',
      action: 'Serve',
      message:
        'metadata.annotations["usher-proxy.io/a"] is unknown; metadata.annotations["usher-proxy.io/b"] is unknown',
      regarding: { kind: 'Service', namespace: 'shop', name: 'web' },
    },
  ])
  events.report([b])
  t.equal(sent.length, 1, 'what is mended is no news')
  events.report([a, b])
  t.equal(sent.length, 2, 'what is broken again is')
})

t.test('of very many Services only some get an Event', async t => {
  const sent: ClusterEvent[] = []
  const events = new AnnotationEvents(event => sent.push(event))
  const all = Array.from({ length: 1000 }, (_, i) => problem(`s${i}`, 'a'))
  events.report(all)
  events.report(all)
  t.equal(sent.length, 20)
})
