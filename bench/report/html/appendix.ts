import type { RunRecord, TargetRecord } from '../../record/record.ts'
import { escaped } from '../svg/element.ts'
import { whenText } from './intro.ts'
import { facts, folded, verbatim } from './markup.ts'

/** What somebody needs who wants to measure the same again, or to doubt it. */
export const appendix = (record: RunRecord): string => {
  const { machine, versions } = record
  return [
    '<section aria-labelledby="appendix">\n<h2 id="appendix">How to repeat it</h2>\n',
    verbatim(record.command),
    facts([
      ['Started', whenText(record.startedAt)],
      ['Cores', String(machine.cpus)],
      ['Processor', machine.model],
      ['Memory', `${(machine.memoryBytes / 2 ** 30).toFixed(1)} GiB`],
      ['Kernel', machine.kernel],
      ...(versions['node'] === undefined ? [['Node', machine.node] as const] : []),
      ...Object.entries(versions),
      ...record.setting,
    ]),
    '<h3>Targets, and how each was started</h3>\n',
    ...record.targets.map(targetText),
    '</section>\n',
  ].join('')
}

const targetText = ({ name, title, command, config }: TargetRecord): string =>
  [
    `<p><strong>${escaped(name)}</strong>${title === '' ? '' : `: ${escaped(title)}`}</p>\n`,
    command === '' ? '' : verbatim(command),
    config === '' ? '' : folded(`Configuration of ${name}`, verbatim(config)),
  ].join('')
