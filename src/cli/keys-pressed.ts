/** Keys of the terminal, one by one. */
export interface KeysPressed {
  /** The next one; undefined when none is pressed within so many milliseconds. */
  readonly next: (withinMs: number) => Promise<string | undefined>
  readonly close: () => void
}

/** Of standard input, where that is a terminal; elsewhere nothing is ever pressed. */
export const keysPressed = (input = process.stdin): KeysPressed => {
  const pressed: string[] = []
  let wake: (() => void) | undefined
  const onData = (keys: Buffer | string): void => {
    pressed.push(...Array.from(String(keys)))
    wake?.()
  }
  if (input.isTTY) {
    input.setRawMode(true)
    input.on('data', onData)
  }
  return {
    next: async withinMs => {
      if (pressed.length === 0)
        await new Promise<void>(resolve => {
          const timer = setTimeout(resolve, withinMs)
          wake = () => {
            clearTimeout(timer)
            resolve()
          }
        })
      wake = undefined
      return pressed.shift()
    },
    close: () => {
      if (!input.isTTY) return
      input.setRawMode(false)
      input.off('data', onData)
      input.pause()
    },
  }
}
