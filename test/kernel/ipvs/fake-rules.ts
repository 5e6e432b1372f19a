import { ToolError } from '../../../src/kernel/run-tool.ts'

/** iptables-restore --noflush, as far as the ipvs mode uses it; counts no packets. */
export class FakeRules {
  readonly tables: Readonly<Record<string, Map<string, string[]>>> = {
    filter: builtIn('INPUT', 'FORWARD', 'OUTPUT'),
    mangle: builtIn('OUTPUT'),
    nat: builtIn('PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'),
  }

  /** What the next restore or save fails with. */
  refused: ToolError | undefined

  /** The rules of one chain. */
  chain(table: string, name: string): string[] {
    const chain = this.tables[table]?.get(name)
    if (chain === undefined)
      throw new ToolError(`no chain ${name} in table ${table}`, 'failed', '')
    return chain
  }

  restore(input: string): string {
    this.#refuse()
    let table = ''
    const shown: string[] = []
    for (const line of input.split('\n'))
      if (line.startsWith('*')) table = line.slice(1)
      else shown.push(...this.#line(table, line))
    return shown.map(line => `${line}\n`).join('')
  }

  #refuse(): void {
    const { refused } = this
    this.refused = undefined
    if (refused !== undefined) throw refused
  }

  #line(table: string, line: string): readonly string[] {
    const [verb = '', name = '', ...rest] = line.split(' ')
    const rule = rest.join(' ')
    if (verb.startsWith(':')) this.tables[table]?.set(verb.slice(1), [])
    if (verb === '-A') this.chain(table, name).push(rule)
    if (verb === '-I') this.chain(table, name).unshift(rule)
    if (verb === '-D') {
      const rules = this.chain(table, name)
      if (!rules.includes(rule)) throw new ToolError(`no rule ${line}`, 'failed', '')
      rules.splice(rules.indexOf(rule), 1)
    }
    if (verb === '-X') this.tables[table]?.delete(name)
    if (verb !== '-S') return []
    const first = name.startsWith('KUBE-') ? `-N ${name}` : `-P ${name} ACCEPT`
    return [first, ...this.chain(table, name).map(each => `-A ${name} ${each}`)]
  }

  /** iptables-save -t TABLE. */
  save(table: string): string {
    this.#refuse()
    const chains = [...(this.tables[table] ?? [])]
    const heads = chains.map(
      ([name]) => `:${name} ${name.startsWith('KUBE-') ? '-' : 'ACCEPT'} [0:0]`,
    )
    const rules = chains.flatMap(([name, lines]) =>
      lines.map(line => `-A ${name} ${line}`),
    )
    return [`*${table}`, ...heads, ...rules, 'COMMIT', ''].join('\n')
  }
}

const builtIn = (...names: readonly string[]): Map<string, string[]> =>
  new Map(names.map(name => [name, []]))
