import t from 'tap'
import type { CommonOrder } from '../../../src/relay/remote/messages.ts'
import {
  type RemoteEnding,
  Remote,
  RemoteGone,
} from '../../../src/relay/remote/remote.ts'
import { FakeClock } from '../../support/fake-clock.ts'

/** A remote end of which the test is the other one. */
const made = (start?: () => never) => {
  const clock = new FakeClock()
  const seen = {
    sent: [] as CommonOrder<string>[],
    endings: [] as RemoteEnding[],
    words: [] as string[],
    kills: 0,
    processEnds: 0,
    beats: 0,
  }
  const channel = {
    send: (order: CommonOrder<string>) => void seen.sent.push(order),
    kill: () => void (seen.kills += 1),
    beats: () => seen.beats,
  }
  const remote = new Remote<string, null>({
    clock,
    patience: { checkMs: 10, mostSilent: 2, mostAtStart: 5 },
    deadMs: 1000,
    start: start ?? (() => channel),
    ready: () => {},
    news: () => {},
    ended: ending => void seen.endings.push(ending),
    killFailed: words => void seen.words.push(words),
    endProcess: () => void (seen.processEnds += 1),
  })
  remote.start()
  return { clock, remote, seen }
}

/** What a call comes to, also when it is rejected. */
const how = (call: Promise<unknown> | undefined): Promise<unknown> | undefined =>
  call?.catch((error: unknown) => error)

t.test('answers find their calls, and a death rejects the others', async t => {
  const { clock, remote, seen } = made()
  remote.receive({ kind: 'ready', self: null })
  const calls = ['one', 'two', 'three'].map(call => remote.call(call))
  t.match(seen.sent, [{ kind: 'call', call: 'one' }, {}, {}])
  const [first, second] = seen.sent.map(order => ('id' in order ? order.id : 0))
  remote.receive({ kind: 'failed', id: second ?? 0, error: new Error('no') })
  remote.receive({ kind: 'done', id: first ?? 0, result: 1 })
  remote.receive({ kind: 'done', id: 99, result: 'of nothing' })
  t.equal(await calls[0], 1)
  t.match(await how(calls[1]), { message: 'no' })
  clock.advance(5)
  for (const error of ['it broke', 'again']) remote.end(new Error(error))
  t.ok((await how(calls[2])) instanceof RemoteGone)
  t.ok((await how(remote.call('four'))) instanceof RemoteGone)
  const ending = { error: { message: 'it broke' }, wasKilled: false, livedMs: 5 }
  t.match(seen.endings, [ending])
  t.strictSame([seen.endings.length, remote.isReady, clock.waiting], [1, false, 0])
})

t.test('news are acknowledged one by one', async t => {
  const { remote, seen } = made()
  const news = { states: [], records: [], faults: [], accessLines: [], lost: 0 }
  for (let i = 0; i < 2; i += 1) remote.receive({ kind: 'news', news })
  t.strictSame(seen.sent, [{ kind: 'news-taken' }, { kind: 'news-taken' }])
  remote.end(new Error('gone'))
  remote.receive({ kind: 'news', news })
  t.equal(seen.sent.length, 2)
})

t.test('one that hangs is killed, and the process ends if it stays', async t => {
  const { clock, remote, seen } = made()
  remote.receive({ kind: 'ready', self: null })
  clock.advance(20)
  t.equal(seen.kills, 0)
  clock.advance(10)
  t.equal(seen.kills, 1)
  clock.advance(1000)
  t.match(seen.words, [/was killed \(it did not respond for 0.02 s\)/])
  clock.advance(199)
  t.equal(seen.processEnds, 0)
  clock.advance(1)
  t.equal(seen.processEnds, 1)
})

t.test('one that may not be killed ends the process, unless it ends late', async t => {
  const { clock, remote, seen } = made()
  remote.kill('the test wants it')
  remote.refused(new Error('kill EPERM'))
  t.strictSame(seen.words, ["can't be killed, though the test wants it: kill EPERM"])
  remote.end(new Error('after all'))
  clock.advance(10_000)
  t.equal(seen.processEnds, 0)
  t.match(seen.endings, [{ wasKilled: true, error: { message: 'the test wants it' } }])
})

t.test('one that can not be started has ended', async t => {
  const { remote, seen } = made(() => {
    throw new Error('no thread left')
  })
  t.match(seen.endings, [{ error: { message: 'no thread left' }, wasLeaving: false }])
  t.ok((await how(remote.call('one'))) instanceof RemoteGone)
  await remote.leave(1000)
})

t.test('one that is asked to leave has its time', async t => {
  const { clock, remote, seen } = made()
  const left = remote.leave(5)
  t.strictSame(seen.sent, [{ kind: 'exit' }])
  clock.advance(4)
  t.equal(seen.kills, 0)
  clock.advance(1)
  t.equal(seen.kills, 1)
  remote.end(new Error('SIGKILL'))
  await left
  t.match(seen.endings, [{ wasLeaving: true }])
})
