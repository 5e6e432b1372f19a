import { styleText } from 'node:util'
import type { Expectation, Section } from './sections.ts'

type Format = Parameters<typeof styleText>[0]

/** Prints the demo, line by line. */
export type Screen = ReturnType<typeof createScreen>

/** A screen over `write`, with colours or in plain text. */
export const createScreen = (write: (text: string) => void, colour: boolean) => {
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
    heading: (text: string) => line(style('bold', text)),
    /** One `label  text` row; the label is emphasised and padded to `width`. */
    row: (label: string, text: string, width: number) =>
      line(`  ${style('cyan', label.padEnd(width))}  ${text}`),
    quiet: (text: string) => line(style('dim', text)),
    section: (number: number, { title, lines, expectation }: Section) => {
      line()
      line(style('bold', `${number}. ${title}`))
      for (const text of lines)
        line(`   ${text.replaceAll(/\u2588+/g, bar => style('cyan', bar))}`)
      line(`   ${verdict(expectation)}`)
    },
    /** Whether all is well, the broken expectations one by one otherwise. */
    summary: (expectations: readonly Expectation[]) => {
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
