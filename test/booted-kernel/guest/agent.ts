import { spawn } from 'node:child_process'
import { createReadStream, openSync, readdirSync, writeSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { handleCalls } from '../../support/net/handle-call.ts'
import type { AgentCall } from '../../support/net/outcome.ts'
import { Programs, run } from './programs.ts'
import type { NodeCall, Reply, Request } from './protocol.ts'
import { syncIpvs } from './sync-ipvs.ts'

/*
 * The first program of the booted machine: does what the test on the other side of a
 * virtio port tells it, and ends with that port. The console stays free for the kernel.
 */

type Place = (call: AgentCall) => Promise<unknown>

const placeProgram = fileURLToPath(new URL('place-process.js', import.meta.url))
const onNode: Place = handleCalls()
const programs = new Programs()
const places: Place[] = []

const handle = async (call: NodeCall | AgentCall): Promise<unknown> => {
  switch (call.op) {
    case 'run':
      return run(call.command, call.args)
    case 'launch':
      return programs.launch(call.command, call.args)
    case 'log':
      return programs.log(call.process)
    case 'said':
      return programs.said(call.process, call.text)
    case 'end':
      return programs.end(call.process, call.signal)
    case 'write':
      await writeFile(call.path, call.text)
      return undefined
    case 'sync ipvs':
      return syncIpvs(call.scheduler)
    case 'enter':
      return places.push(await enter(call.netns)) - 1
    case 'at':
      return placeOf(call.place)(call.call)
    case 'serve':
    case 'dial':
    case 'get':
    case 'load':
    case 'end load':
    case 'open':
    case 'ask':
    case 'subscribe':
    case 'heard':
    case 'close':
    default:
      return onNode(call)
  }
}

const placeOf = (number: number): Place => {
  const place = places[number]
  if (place === undefined) throw new Error(`no place ${number} was entered`)
  return place
}

/** A process in that namespace, once it is ready. */
const enter = (netns: string): Promise<Place> => {
  const child = spawn('ip', ['netns', 'exec', netns, process.execPath, placeProgram], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const waiting = new Map<number, (reply: Reply) => void>()
  let last = 0
  const place: Place = call =>
    new Promise((resolve, reject) => {
      last += 1
      waiting.set(last, ({ error, result }) =>
        error === undefined ? resolve(result) : reject(new Error(error)),
      )
      child.stdin.write(`${JSON.stringify({ id: last, ...call })}\n`)
    })
  return new Promise((resolve, reject) => {
    child.once('exit', code => reject(new Error(`place in ${netns}: exit code ${code}`)))
    createInterface(child.stdout).on('line', line => {
      const reply = JSON.parse(line) as Reply
      if (reply.id === 0) resolve(place)
      else waiting.get(reply.id)?.(reply)
    })
  })
}

/** The first virtio port; the kernel makes it a moment after its driver has loaded. */
const findPort = async (): Promise<string> => {
  for (;;) {
    const port = readdirSync('/dev').find(name => /^vport\d+p1$/.test(name))
    if (port !== undefined) return `/dev/${port}`
    await sleep(20)
  }
}

// It can be opened once only.
const channel = openSync(await findPort(), 'r+')
const send = (reply: Reply): void => void writeSync(channel, `${JSON.stringify(reply)}\n`)

createInterface(createReadStream('', { fd: channel }))
  .on('line', line => {
    const { id, call } = JSON.parse(line) as Request
    handle(call).then(
      result => send({ id, result }),
      (error: Error) => send({ id, error: error.message }),
    )
  })
  .once('close', () => process.exit())
send({ id: 0 })
