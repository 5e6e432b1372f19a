/** What `usher` ends with, and what that means: for help, man pages and docs. */
export const exitCodes: readonly (readonly [code: string, meaning: string])[] = [
  ['0', 'what was asked for is done; a proxy was told to end'],
  [
    '1',
    'it is not, or something was found wrong, and the reason is on the standard error',
  ],
  ['2', 'the command was called wrongly'],
  [
    '3',
    'no Usher has answered: none runs there, or it does not listen, or may not be asked',
  ],
  ['75', 'the configuration file of `usher run` has changed: start it anew'],
]
