/**
 * The words of a line of iptables-save or iptables-restore; double quotes hold one
 * together, and in them a backslash takes what follows for itself (iptables' own
 * `xtables_save_string`).
 */
export const wordsOf = (line: string): string[] => {
  const words: string[] = []
  for (let at = 0; ;) {
    while (line[at] === ' ') at += 1
    if (at >= line.length) return words
    const [word, next] = line[at] === '"' ? quoted(line, at + 1) : plain(line, at)
    words.push(word)
    at = next
  }
}

const plain = (line: string, from: number): [string, number] => {
  const end = line.indexOf(' ', from)
  const to = end === -1 ? line.length : end
  const word = line.slice(from, to)
  if (word.includes('"')) throw new Error(`a quote inside of a word: ${line}`)
  return [word, to]
}

const quoted = (line: string, from: number): [string, number] => {
  let word = ''
  for (let at = from; at < line.length; at += 1) {
    if (line[at] === '"') return [word, at + 1]
    if (line[at] === '\\') at += 1
    word += line[at] ?? ''
  }
  throw new Error(`a quote that does not end: ${line}`)
}

/** A word as it stands in a line of the canonical form. */
export const quote = (word: string): string =>
  /^[\w.,:/![\]+-]+$/.test(word) ? word : `"${word.replace(/["\\]/g, '\\$&')}"`
