import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import type { Endpoint } from '../services.ts'
import { serverName, type Slot } from './haproxy-config.ts'

export interface SlotPlan {
  readonly slots: readonly Slot[]
  /** For HAProxy's runtime API, in this order. */
  readonly commands: readonly string[]
}

/**
 * How the servers of `service` come to lead to `wanted`: those that already do are left
 * alone, new endpoints come before old ones go. Throws when there are too few servers.
 */
export const planSlots = (
  service: string,
  slots: readonly Slot[],
  wanted: readonly Endpoint[],
): SlotPlan => {
  if (wanted.length > slots.length)
    throw new Error(`${service} has ${slots.length} servers, not ${wanted.length}`)
  const next = keep(slots, wanted)
  const arriving = wanted.filter(endpoint => !next.some(slot => same(slot, endpoint)))
  for (const endpoint of arriving) next[next.indexOf(undefined)] = endpoint
  const changed = [...next.keys()].filter(index => !same(slots[index], next[index]))
  const commands = [
    ...changed.filter(index => next[index] !== undefined),
    ...changed.filter(index => next[index] === undefined),
  ].flatMap(index => commandsFor(`${service}/${serverName(index)}`, next[index]))
  return { slots: next, commands }
}

const keep = (slots: readonly Slot[], wanted: readonly Endpoint[]): Slot[] =>
  slots.map(slot => (wanted.some(endpoint => same(slot, endpoint)) ? slot : undefined))

const same = (one: Slot, other: Slot): boolean =>
  one?.address === other?.address && one?.port === other?.port

const commandsFor = (server: string, slot: Slot): readonly string[] =>
  slot === undefined
    ? [`set server ${server} state maint`]
    : [
        `set server ${server} addr ${slot.address} port ${slot.port}`,
        `set server ${server} state ready`,
      ]

const answersWithinMs = 5000

/** Has HAProxy carry out commands. Rejects with what it says to one that it refuses. */
export const runHaproxyCommands = async (
  socket: string,
  commands: readonly string[],
): Promise<void> => {
  if (commands.length === 0) return
  const connection = connect(socket)
  connection.setTimeout(answersWithinMs, () =>
    connection.destroy(new Error(`HAProxy gave no answer in ${answersWithinMs} ms`)),
  )
  connection.end(`${commands.join(';')}\n`)
  const answer = await text(connection)
  const refused = answer.split('\n').find(line => line.trim() !== '' && !isFine(line))
  if (refused !== undefined) throw new Error(`HAProxy: ${refused}`)
}

/** It is silent about a state, and tells of an address what has become of it. */
const isFine = (line: string): boolean => /changed from|no need to change/i.test(line)
