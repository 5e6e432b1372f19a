import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { RetryOptions } from '../../../src/model/traffic.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { type MakeRelay, relayFixture } from '../../support/relay-fixture.ts'
import { dial, tcpBackend } from '../../support/tcp-backend.ts'

const cancelRequest = Buffer.from('0000001004d2162e0000126700000330', 'hex')
const runMs = 2000

/** What some clients do is not booked on the endpoint: others go where they went. */
export const tcpOneClientContract = (t: Test, make: MakeRelay): void => {
  /** Answers a line with its name; ends without a word on all else, and on who is silent for too long. */
  const lineServer = (t: Test, name: string, loginMs: number, heard: string[]) =>
    tcpBackend(t, socket => {
      let text = ''
      const login = setTimeout(() => socket.end(), loginMs)
      socket.on('data', data => {
        text += data.toString('latin1')
        const isLine = /^hello \d+\n$/.test(text)
        const mayBeCancel = text.startsWith('\0') && text.length < cancelRequest.length
        if (mayBeCancel || (!isLine && 'hello'.startsWith(text.slice(0, 5)))) return
        heard.push(text)
        clearTimeout(login)
        socket.end(isLine ? name : '')
      })
      socket.on('end', () => socket.end()).on('close', () => clearTimeout(login))
    })

  const say = (
    t: Test,
    port: number,
    from: string,
    pieces: readonly (string | Buffer)[],
    end = false,
  ) =>
    new Promise<string>(resolve => {
      const socket: Socket = dial(t, port, testHost, from)
      let text = ''
      socket.on('data', data => (text += data.toString()))
      socket.on('error', () => {})
      socket.on('end', () => socket.end()).on('close', () => resolve(text))
      pieces.forEach((piece, i) => setTimeout(() => socket.write(piece), 20 * i))
      if (end) setTimeout(() => socket.destroy(), 20 * pieces.length)
    })

  const all: Readonly<Record<string, Partial<RetryOptions>>> = {
    'replay and hold': { replay: 1024, holdMs: 30_000 },
    'answers in time': { replay: 1024, answerMs: 1000 },
    'answers in time, and no replay': { answerMs: 1000 },
    nothing: {},
  }
  for (const [kind, options] of Object.entries(all)) {
    t.test(`silent clients, cancels, scanners; ${kind}`, async t => {
      const { listen, stats } = relayFixture(t, make)
      const port = await freeTcpPort()
      const heard: string[][] = [[], []]
      // Too long to be a close at once, and longer than an answer may take.
      const loginMs = options.answerMs === undefined ? 350 : 1500
      const tiers = await Promise.all(
        heard.map((mine, i) => lineServer(t, `tier ${i}`, loginMs, mine)),
      )
      await listen({
        binds: [{ address: testHost, port }],
        endpoints: tiers.map((one, tier) => Object.assign({ tier }, one.endpoint)),
        retry: { earlyClose: true, replay: 0, ...options },
      })
      const until = performance.now() + runMs
      const answers = new Map<string, number>()
      let cancels = 0
      const again = async (what: (turn: number) => Promise<unknown>): Promise<void> => {
        for (let turn = 0; performance.now() < until; turn += 1) await what(turn)
      }
      await Promise.all([
        ...Array.from({ length: 16 }, (_, i) =>
          again(async turn => {
            const answer = await say(t, port, `127.0.0.${10 + i}`, [`hello ${turn}\n`])
            answers.set(answer, (answers.get(answer) ?? 0) + 1)
            if (i === 0) {
              cancels += 1
              const cut = turn % 16
              const pieces = [cancelRequest.subarray(0, cut), cancelRequest.subarray(cut)]
              await say(t, port, '127.0.0.10', pieces)
            }
            await sleep(50)
          }),
        ),
        ...[1, 2, 3, 4].map(i => again(() => say(t, port, `127.0.0.${30 + i}`, []))),
        ...[1, 2].map(i => again(() => say(t, port, `127.0.0.${40 + i}`, ['hel']))),
        ...[1, 2, 3].map(i =>
          again(async turn => {
            const said = [['GET / HTTP/1.1\r\n\r\n'], ['\0\0\0'], [], ['hello ']][
              turn % 4
            ]
            await say(t, port, `127.0.0.${50 + i}`, said ?? [], turn % 2 === 1)
            await sleep(20)
          }),
        ),
      ])
      t.ok((answers.get('tier 0') ?? 0) > 20)
      t.strictSame([...answers.keys()], ['tier 0'], JSON.stringify([...answers]))
      const cancelsOf = (texts: readonly string[] = []): number =>
        texts.filter(text => text === cancelRequest.toString('latin1')).length
      t.strictSame(heard.map(cancelsOf), [cancels, 0], 'each cancel was told once')
      t.equal(stats().endpoints[0]?.coolingDown, false)
    })
  }
}
