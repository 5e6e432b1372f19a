import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import type { Netns } from '../../support/netns.ts'
import type { Answers } from '../../support/whole-answers.ts'
import { makeStage } from './stage.ts'
import type { Way } from './ways.ts'
import { typescript } from '../../support/typescript.ts'

const visits = 3000
const vip = '10.96.77.1'
const program = fileURLToPath(
  new URL('../../support/net/answers-process.ts', import.meta.url),
)

/** Answers stay whole while tools of the system are run ten times a second. */
export const answersUnderChanges = async (
  t: Test,
  way: Way,
  ...flags: string[]
): Promise<void> => {
  const stage = await makeStage(t, way)
  const { child, lines } = startAnswers(t, stage.net.node)
  const port = Number(await nextLine(lines))
  const write = (changes: number): Promise<void> =>
    stage.manifests.write(
      ...objectsOf('steady', vip, port),
      ...objectsOf('changing', `10.96.78.${(changes % 200) + 1}`, port),
    )
  await write(0)
  const usher = stage.start(...flags)
  await usher.ready(2)
  let changes = 0
  const over = new AbortController()
  const changing = (async () => {
    while (!over.signal.aborted) {
      await write((changes += 1))
      await sleep(100)
    }
  })()
  child.stdin?.write('go\n')
  const seen = JSON.parse(await nextLine(lines)) as Answers
  over.abort()
  await changing
  t.match(seen, { short: 0, wrong: 0, reset: 0 }, `${seen.whole} whole answers`)
  t.ok(seen.whole > visits / 4, `${changes} changes of rules`)
}

const startAnswers = (t: Test, { prefix }: Netns) => {
  const [command = '', ...args] = prefix
  const node = ['setpriv', '--pdeathsig=KILL', process.execPath, typescript, program]
  const child = spawn(command, [...args, ...node, vip, '80', String(visits)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  return { child, lines: createInterface({ input: child.stdout }) }
}

const nextLine = async (lines: ReturnType<typeof createInterface>): Promise<string> => {
  const [line] = (await once(lines, 'line')) as [string]
  return line
}

const objectsOf = (name: string, clusterIP: string, port: number): readonly object[] => [
  {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name },
    spec: { clusterIP, ports: [{ name: 'p', port: 80, targetPort: port }] },
  },
  {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: `${name}-1`, labels: { 'kubernetes.io/service-name': name } },
    addressType: 'IPv4',
    endpoints: [{ addresses: ['127.0.0.1'] }],
    ports: [{ name: 'p', port }],
  },
]
