import type { Wanted } from './oracle.ts'
import { dial, type Door } from './dial.ts'
import { steadyPrefix } from './service-changes.ts'

/** A door, and who may answer there; nobody, if it is empty. */
export interface Expectation extends Door {
  readonly service: string
  readonly answers: readonly string[]
  /** One client always gets the same. */
  readonly sticky: boolean
}

/** What clients on this host can dial of what is wanted. */
export const expectations = (wanted: readonly Wanted[]): Expectation[] =>
  wanted
    .filter(({ family }) => family === 'IPv4')
    .flatMap(({ service, protocol, doors, view }) =>
      doors.map(door => ({
        ...door,
        service,
        protocol,
        // With several doors that lead to different endpoints one client changes its place.
        sticky: view.affinityMs > 0 && doors.length === 1,
      })),
    )

const timesEach = 4
/** A refusal comes at once, or it is a datagram that is dropped. */
const silenceMs = 300

/** Dials a door several times: what is wrong with the answers, '' when nothing. */
const tryDoor = async (expected: Expectation): Promise<string> => {
  const heard = new Set<string>()
  for (let i = 0; i < timesEach; i += 1) {
    const answer = await answerAt(expected)
    if (!isRight(expected, answer)) return complaint(expected, answer)
    heard.add(answer)
  }
  return expected.sticky && heard.size > 1
    ? `${nameOf(expected)} has affinity and sent one client to ${[...heard].join(' and ')}`
    : ''
}

/** Several doors at a time; the complaints. */
export const tryDoors = async (doors: readonly Expectation[]): Promise<string[]> => {
  const complaints: string[] = []
  const waiting = [...doors]
  const worker = async (): Promise<void> => {
    for (let door = waiting.pop(); door; door = waiting.pop()) {
      const said = await tryDoor(door)
      if (said !== '') complaints.push(said)
    }
  }
  await Promise.all(Array.from({ length: 6 }, worker))
  return complaints
}

const answerAt = (expected: Expectation): Promise<string> =>
  dial(expected, expected.answers.length === 0 ? silenceMs : undefined)

const isRight = ({ answers, protocol }: Expectation, answer: string): boolean =>
  answers.length > 0
    ? answers.includes(answer)
    : ['ECONNREFUSED', protocol === 'TCP' ? 'ECONNRESET' : 'silence'].includes(answer)

const complaint = (expected: Expectation, answer: string): string => {
  const who = expected.answers.length === 0 ? 'nobody' : expected.answers.join(' or ')
  return `${nameOf(expected)} answered '${answer}', and should ${who}`
}

const nameOf = ({ service, address, port, protocol }: Expectation): string =>
  `${service} (${address}:${port}/${protocol})`

/**
 * Dials, all the time, Services that nothing has happened to since they were seen to be
 * right: whatever goes wrong with the API server must not be felt there.
 */
export class Bystanders {
  readonly #wrong: (complaint: string) => void
  #doors: readonly Expectation[] = []
  #running = true
  #dials = 0
  readonly #done: Promise<void>

  constructor(wrong: (complaint: string) => void) {
    this.#wrong = wrong
    this.#done = this.#run()
  }

  get dials(): number {
    return this.#dials
  }

  /** These are right now. */
  watch(doors: readonly Expectation[]): void {
    this.#doors = doors
  }

  /** Something was done to this Service; '': to all that are not steady. */
  leave(service: string): void {
    this.#doors = this.#doors.filter(door =>
      service === '' ? door.service.startsWith(steadyPrefix) : door.service !== service,
    )
  }

  async end(): Promise<void> {
    this.#running = false
    await this.#done
  }

  async #run(): Promise<void> {
    while (this.#running) {
      const door = this.#doors[Math.floor(Math.random() * this.#doors.length)]
      if (door !== undefined) {
        this.#dials += 1
        const answer = await answerAt(door)
        if (this.#doors.includes(door) && !isRight(door, answer))
          this.#wrong(`nothing happened to it, but ${complaint(door, answer)}`)
      }
      await new Promise(resolve => setTimeout(resolve, 15))
    }
  }
}
