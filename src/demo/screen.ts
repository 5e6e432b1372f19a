import { styleText } from 'node:util'
import type { Expectation, Section } from './sections.ts'

type Format = Parameters<typeof styleText>[0]

/** Prints the demo, line by line. */
export interface Screen {
  line(text?: string): void
  heading(text: string): void
  /** One `label  text` row; the label is emphasised and padded to `width`. */
  row(label: string, text: string, width: number): void
  quiet(text: string): void
  warn(text: string): void
  section(number: number, section: Section): void
  /** Whether all is well, the broken expectations one by one otherwise. */
  summary(expectations: readonly Expectation[]): void
}

/** A screen over `write`, with colours or in plain text. */
export const createScreen = (write: (text: string) => void, colour: boolean): Screen => {
  // Whether to colour was decided by who made the screen, so styleText need not look.
  const style = (format: Format, text: string): string =>
    colour ? styleText(format, text, { validateStream: false }) : text
  const line = (text = ''): void => write(`${text}\n`)
  const warn = (text: string): void => line(style('yellow', `! ${text}`))
  const verdict = ({ ok, name, reason }: Expectation): string =>
    ok ? style('green', `✔ ${name}`) : style('red', `✘ not so: ${name}; ${reason}`)
  return {
    line,
    warn,
    heading: text => line(style('bold', text)),
    row: (label, text, width) => line(`  ${style('cyan', label.padEnd(width))}  ${text}`),
    quiet: text => line(style('dim', text)),
    section: (number, { title, lines, expectation }) => {
      line()
      line(style('bold', `${number}. ${title}`))
      for (const text of lines)
        line(`   ${text.replaceAll(/█+/g, bar => style('cyan', bar))}`)
      line(`   ${verdict(expectation)}`)
    },
    summary: expectations => {
      const broken = expectations.filter(({ ok }) => !ok)
      line()
      if (broken.length === 0)
        return line(style('green', `✔ all ${expectations.length} expectations are met`))
      line(
        style('red', `✘ ${broken.length} of ${expectations.length} expectations broken:`),
      )
      for (const one of broken) line(`  ${verdict(one)}`)
    },
  }
}
