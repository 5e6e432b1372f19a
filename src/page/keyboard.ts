/** What keys do; the table has the arrows when it has the focus, or nothing has it. */
export interface KeyDeps {
  readonly table: HTMLElement
  readonly filter: HTMLInputElement
  /** So many rows down, or up. */
  readonly move: (rows: number) => void
  /** Rows of a screen. */
  readonly page: () => number
  readonly open: () => void
  readonly escape: () => void
}

export const followKeys = ({
  table,
  filter,
  move,
  page,
  open,
  escape,
}: KeyDeps): void => {
  const inTable: Readonly<Record<string, () => void>> = {
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    PageDown: () => move(page()),
    PageUp: () => move(-page()),
    Home: () => move(-Infinity),
    End: () => move(Infinity),
    Enter: open,
  }
  document.addEventListener('keydown', event => {
    const { key, target } = event
    if (event.ctrlKey || event.metaKey || event.altKey) return
    const act = (does: () => void): void => {
      event.preventDefault()
      does()
    }
    if (key === 'Escape') return act(escape)
    if (key === '/' && target !== filter)
      return act(() => {
        filter.focus()
        filter.select()
      })
    const toTable = (): void => table.focus({ preventScroll: true })
    if (target === filter && (key === 'ArrowDown' || key === 'Enter')) return act(toTable)
    const does = inTable[key]
    if (does === undefined || (target !== table && target !== document.body)) return
    act(() => {
      toTable()
      does()
    })
  })
}
