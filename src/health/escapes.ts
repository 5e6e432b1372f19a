const named: Readonly<Record<string, string>> = {
  n: '\n',
  r: '\r',
  t: '\t',
  0: '\0',
  '\\': '\\',
}

/**
 * Bytes as they are written in options: `\r`, `\n`, `\t`, `\0`, `\\` and `\x1f`, all else in
 * UTF-8. Each character of the result is a byte. Undefined where a backslash stands before
 * anything else.
 */
export const readBytes = (text: string): string | undefined => {
  let isSound = true
  const bytes = Buffer.from(text, 'utf8')
    .toString('latin1')
    .replaceAll(/\\(x[\da-f]{2}|.?)/gis, (_, escape: string) => {
      if (escape.length === 3) return String.fromCharCode(Number(`0${escape}`))
      const char = named[escape]
      isSound &&= char !== undefined
      return char ?? ''
    })
  return isSound ? bytes : undefined
}
