import type { Drawing } from '../svg/drawing.ts'

/** A report as data: its contents in order, for a writer of HTML or Markdown. */
export interface Page {
  readonly title: string
  /** When the run was started, and how long it took. */
  readonly when: string
  /** The command line that repeats it. */
  readonly command: string
  readonly introduction: readonly Block[]
  readonly overview: Section
  /** How to read the charts. */
  readonly key: readonly string[]
  readonly groups: readonly Group[]
  readonly appendix: Section
}

export interface Section {
  readonly id: string
  readonly title: string
  readonly blocks: readonly Block[]
}

/** A group of scenarios. */
export interface Group extends Pick<Section, 'id' | 'title'> {
  /** The file of its charts, see `pictures`. */
  readonly picture: string
  /** What all its scenarios are about, '' when each is about something else. */
  readonly about: string
  readonly scenarios: readonly ScenarioPart[]
}

export interface ScenarioPart {
  /** By which `--only` knows it. */
  readonly name: string
  readonly title: string
  /** '' where the group says it. */
  readonly about: string
  readonly drawings: readonly Drawing[]
  readonly notes: readonly string[]
  /** In full what the charts have only room to hint at. */
  readonly troubles: readonly string[]
  /** All figures, by which the charts were drawn. */
  readonly tables: {
    readonly title: string
    readonly blocks: readonly Block[]
  }
}

export type Block =
  | { readonly kind: 'paragraph'; readonly text: string; readonly look?: 'muted' | 'bad' }
  | { readonly kind: 'warning'; readonly text: string }
  | { readonly kind: 'heading'; readonly text: string }
  /** A name, and a text about it, which may be ''. */
  | { readonly kind: 'named'; readonly name: string; readonly text: string }
  | {
      readonly kind: 'list'
      readonly items: readonly string[]
      readonly look?: 'notes' | 'notes troubles'
    }
  | { readonly kind: 'facts'; readonly pairs: readonly (readonly [string, string])[] }
  /** Text as it is, such as a command or a file. */
  | { readonly kind: 'code'; readonly text: string }
  /** Shown only on demand. */
  | {
      readonly kind: 'folded'
      readonly summary: string
      readonly content: readonly Block[]
    }
  | Table

export interface Table {
  readonly kind: 'table'
  /** For those who don't see what stands above it. */
  readonly caption: string
  readonly look: '' | 'overview' | 'figures'
  readonly head: readonly Cell[]
  /** Lines by sections, each under a heading, '' for none; the first cell names the line. */
  readonly sections: readonly {
    readonly heading: string
    readonly lines: readonly (readonly Cell[])[]
  }[]
}

export type Cell =
  | string
  | {
      readonly text: string
      /** Lines in small print below it. */
      readonly small?: readonly string[]
      /** Class of its look. */
      readonly look?: string
      /** On pointing at it. */
      readonly detail?: string
    }

export const paragraph = (text: string, look?: 'muted' | 'bad'): Block => ({
  kind: 'paragraph',
  text,
  ...(look !== undefined && { look }),
})

/** None for an empty list. */
export const list = (
  items: readonly string[],
  look?: 'notes' | 'notes troubles',
): readonly Block[] =>
  items.length === 0 ? [] : [{ kind: 'list', items, ...(look !== undefined && { look }) }]

export const folded = (summary: string, content: readonly Block[]): Block => ({
  kind: 'folded',
  summary,
  content,
})
