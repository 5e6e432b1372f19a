/** A command of a page, and what the page says that it prints. */
export interface ConsoleStep {
  readonly line: string
  readonly printed: string
}

/** The commands of a page's blocks of language `console`, in its order: `$ usher status`, then its output. */
export const consoleSteps = (page: string): readonly ConsoleStep[] =>
  [...page.matchAll(/```console\n([^]*?)```/g)].flatMap(([, block = '']) =>
    block.split(/^\$ /m).flatMap(text => {
      const [line = '', ...printed] = text.split('\n')
      return line === '' ? [] : [{ line, printed: printed.join('\n') }]
    }),
  )
