/** What one transaction did to tables named `usher`. */
export interface Transaction {
  /** Who did it, as in `nft (process 17)`. */
  readonly by: string
  /** By table, as in `ip usher`. */
  readonly touched: ReadonlyMap<string, Touch>
}

export interface Touch {
  /** The first of the changes, cut to a few words. */
  readonly what: string
  /** Elements that came into the set `stamp`. */
  readonly stamps: readonly string[]
}

export type MonitorEvent = Transaction | 'lost events'

/** Enough to know what a line is about; nft 1.0.6 writes some of hundreds of kilobytes. */
const longestLine = 300

/** Reads the text of `nft monitor`, which may be cut anywhere. */
export class MonitorEvents {
  #rest = ''
  #touched = new Map<string, { what: string; stamps: string[] }>()

  /** The transactions on Usher's tables that are complete by now. */
  read(chunk: string): readonly MonitorEvent[] {
    const lines = (this.#rest + chunk).split('\n')
    this.#rest = (lines.pop() ?? '').slice(0, longestLine)
    return lines.flatMap(line => this.#line(line) ?? [])
  }

  #line(line: string): MonitorEvent | undefined {
    if (line.startsWith('#')) return this.#end(line)
    const match = /^\w+ \w+ (ip6? usher)(?= |$)(.*)/.exec(line.slice(0, longestLine))
    const [, table, rest] = match ?? []
    if (table === undefined || rest === undefined) return undefined
    let touch = this.#touched.get(table)
    if (touch === undefined) {
      touch = { what: line.slice(0, 100).trimEnd(), stamps: [] }
      this.#touched.set(table, touch)
    }
    const stamp = /^ stamp \{ (0x\w+) \}/.exec(rest)?.[1]
    if (stamp !== undefined && line.startsWith('add element')) touch.stamps.push(stamp)
    return undefined
  }

  /** `# new generation 7 by process 123 (nft)`, or words about lost events. */
  #end(line: string): MonitorEvent | undefined {
    if (/lost/i.test(line)) {
      this.#touched = new Map()
      return 'lost events'
    }
    const [, pid = '?', name = '?'] = /by process (\d+) \((.*)\)/.exec(line) ?? []
    const touched = this.#touched
    this.#touched = new Map()
    return touched.size === 0 ? undefined : { by: `${name} (process ${pid})`, touched }
  }
}
