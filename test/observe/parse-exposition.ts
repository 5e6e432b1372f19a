export interface ParsedFamily {
  readonly help: string
  readonly type: string
  readonly values: Map<string, number>
}

const label = /^([a-zA-Z_]\w*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)/

const checkLabels = (text: string): void => {
  const seen = new Set<string>()
  for (let rest = text; rest !== '';) {
    const match = label.exec(rest)
    if (match === null) throw new Error(`bad labels: ${text}`)
    const name = match[1] ?? ''
    if (seen.has(name)) throw new Error(`label twice: ${text}`)
    seen.add(name)
    rest = rest.slice(match[0].length)
  }
}

/** Reads the text format strictly: anything unusual throws. */
export const parse = (text: string): Map<string, ParsedFamily> => {
  if (!text.endsWith('\n')) throw new Error('no newline at the end')
  const families = new Map<string, ParsedFamily>()
  let name = ''
  let help = ''
  for (const line of text.split('\n').filter(each => each !== '')) {
    const about = /^# (HELP|TYPE) ([a-zA-Z_:][\w:]*) (.+)$/.exec(line)
    if (about?.[1] === 'HELP') {
      name = about[2] ?? ''
      help = about[3] ?? ''
      if (families.has(name)) throw new Error(`family twice: ${name}`)
    } else if (about?.[1] === 'TYPE') {
      if (about[2] !== name) throw new Error(`TYPE without HELP: ${line}`)
      families.set(name, { help, type: about[3] ?? '', values: new Map() })
    } else {
      const sample = /^([a-zA-Z_:][\w:]*)(?:\{(.+)\})? (\S+)$/.exec(line)
      const family = families.get(name)
      if (sample === null || family === undefined) throw new Error(`bad line: ${line}`)
      const [, sampleName = '', labels = '', value] = sample
      checkLabels(labels)
      const suffix = sampleName.slice(name.length)
      const suffixes = family.type === 'histogram' ? ['_bucket', '_sum', '_count'] : ['']
      if (!sampleName.startsWith(name) || !suffixes.includes(suffix))
        throw new Error(`${sampleName} in the family ${name}`)
      const key = `${suffix}{${labels}}`
      if (family.values.has(key)) throw new Error(`series twice: ${line}`)
      const number = Number(value)
      if (!Number.isFinite(number)) throw new Error(`bad value: ${line}`)
      family.values.set(key, number)
    }
  }
  return families
}

/** Gauges of kube-proxy's. */
const misnamed: ReadonlySet<string> = new Set([
  'kubeproxy_sync_proxy_rules_no_local_endpoints_total',
  'kubeproxy_sync_proxy_rules_iptables_total',
])

/** Prometheus' rules for names, which some of kube-proxy's own break. */
export const badNames = (families: ReadonlyMap<string, ParsedFamily>): string[] =>
  [...families].flatMap(([name, { help, type }]) => {
    if (!/^\S.{15,}\.$/.test(help)) return [`${name} is not explained in a sentence`]
    if (misnamed.has(name)) return []
    return name.endsWith('_total') === (type === 'counter') ? [] : [`${name}: ${type}`]
  })
