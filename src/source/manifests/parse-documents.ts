import type { RawDocument } from './raw-document.ts'
import { printable } from '../decode/printable.ts'
import { parseYaml } from './parse-yaml.ts'

/** The documents of a file, JSON when its name ends so, else YAML. Never rejects. */
export async function* parseDocuments(
  path: string,
  text: string,
): AsyncGenerator<RawDocument> {
  // What a writer leaves that was interrupted, or that found the disk full. To take it
  // for "no Services" would take down everything the file stood for.
  if (text.trim() === '') yield { number: 1, value: undefined, error: empty }
  else if (path.endsWith('.json')) yield parseJson(text)
  else yield* parseYaml(text)
}

const empty =
  'the file is empty; remove it, or leave a comment in it, if it is to hold nothing'

const parseJson = (text: string): RawDocument => {
  try {
    return { number: 1, value: JSON.parse(text), error: '' }
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    return { number: 1, value: undefined, error: jsonFault(message, text) }
  }
}

// V8 gives a position for all but the end of the text, and newer ones quote the text.
const jsonFault = (message: string, text: string): string => {
  const position = /at position (\d+)/.exec(message)?.[1]
  const before = position === undefined ? text : text.slice(0, Number(position))
  const line = before.trimEnd().split('\n').length
  const what = message.replace(/ in JSON at position.*$/s, '').replace(/, ".*$/s, '')
  return `line ${line}: ${printable(what)}`
}
