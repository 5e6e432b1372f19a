import { sorted, type Sorting, usualSorting } from './service-columns.ts'
import { byId, setText } from './dom.ts'
import { count } from './format.ts'
import { showHead, showProblems, showProcess } from './head.ts'
import { OpenedService } from './opened-service.ts'
import { type Row, Store } from './store.ts'
import { followStream } from './stream.ts'
import { ServiceTable } from './table.ts'

const store = new Store()
const filter = byId('filter') as HTMLInputElement
let sorting: Sorting = usualSorting
let active: Row | undefined
let opened: OpenedService | undefined
let rows: readonly Row[] = []
let lost = ''
/** `Tick.at`. */
let heardAt: number | undefined

const open = (row: Row): void => goTo(fragmentOf(row))
const close = (): void => goTo('')

/** The opened Service is in the address, so that reload and Back keep it. */
const goTo = (fragment: string): void => {
  if (fragment !== location.hash)
    history.pushState(null, '', fragment || location.pathname + location.search)
  followAddress()
}

const followAddress = (): void => {
  const { hash } = location
  if (hash === (opened === undefined ? '' : fragmentOf(opened.row))) return
  // Undefined, too, until its row is there.
  const row = store.rows.find(one => fragmentOf(one) === hash)
  if (opened === undefined && row === undefined) return
  opened?.close()
  opened = row && new OpenedService(byId('opened'), row, close)
  if (row === undefined) table.element.focus({ preventScroll: true })
  else active = row
  render()
}

/** `#default/web:http`, `#default/dns:dns,UDP,IPv6`. */
const fragmentOf = ({ servicePort, protocol, family }: Row): string => {
  const unusual = [protocol, family].filter(word => word !== 'TCP' && word !== 'IPv4')
  return `#${encodeURI([servicePort, ...unusual].join(','))}`
}

const table = new ServiceTable(byId('scroller'), {
  open,
  sort: ({ id, first }) => {
    const other = sorting.direction === 'ascending' ? 'descending' : 'ascending'
    sorting = { by: id, direction: sorting.by === id ? other : first }
    byId('scroller').scrollTop = 0
    render()
  },
})

const render = (): void => {
  const { head, tick } = store
  if (head === undefined || tick === undefined || document.hidden) return
  showHead(head, tick, store.rows, lost)
  showProcess(tick)
  const wanted = filter.value.trim().toLowerCase()
  const found = store.rows.filter(({ searchable }) => searchable.includes(wanted))
  rows = sorted(found, sorting, tick.at)
  setText(byId('shown'), shownText(rows.length, store.rows.length, head.counted))
  const isCounted = head.counted !== 'none'
  table.show({
    rows,
    sorting,
    active,
    opened: opened?.row,
    now: tick.at,
    isCounted,
  })
}

const shownText = (shown: number, all: number, counted: string): string => {
  const services =
    shown === all ? count(all, 'Service') : `${shown} of ${count(all, 'Service')}`
  if (counted === 'all') return services
  const whose =
    counted === 'some' ? 'Rates are of those that the relay carries' : 'No rates'
  return `${services}. ${whose}: the kernel forwards connections, and does not count them for Usher.`
}

const move = (by: number): void => {
  const from = active === undefined ? -1 : rows.indexOf(active)
  const to = Math.min(rows.length - 1, Math.max(0, from + by))
  active = rows[to]
  if (active !== undefined) table.reveal(active)
  render()
}

const escape = (): void => {
  if (opened !== undefined) return close()
  filter.value = ''
  render()
}

filter.addEventListener('input', render)
addEventListener('hashchange', followAddress)
document.addEventListener('visibilitychange', render)
/** The table has the arrows when it has the focus, or nothing has it. */
const inTable: Readonly<Record<string, () => void>> = {
  ArrowDown: () => move(1),
  ArrowUp: () => move(-1),
  PageDown: () => move(table.page),
  PageUp: () => move(-table.page),
  Home: () => move(-Infinity),
  End: () => move(Infinity),
  Enter: () => active && rows.includes(active) && open(active),
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
  const toTable = (): void => table.element.focus({ preventScroll: true })
  if (target === filter && (key === 'ArrowDown' || key === 'Enter')) return act(toTable)
  const does = inTable[key]
  if (does === undefined || (target !== table.element && target !== document.body)) return
  act(() => {
    toTable()
    does()
  })
})
followStream(
  {
    begin: () => store.begin(),
    head: head => {
      store.head = head
      showProblems(head)
    },
    rows: texts => store.setRows(texts),
    gone: gone => store.remove(gone),
    counts: counts => store.setCounts(counts),
    past: past => store.setPast(past),
    tick: tick => {
      // A look that was told before, on a stream before, is no news.
      if (tick.at !== heardAt) lost = ''
      heardAt = tick.at
      store.setTick(tick)
      byId('tools').hidden = false
      followAddress()
      render()
    },
  },
  reason => {
    lost = reason
    render()
    if (store.tick === undefined) setText(byId('heard'), reason)
  },
)
