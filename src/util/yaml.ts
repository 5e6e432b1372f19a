// What is used of the library. Loaded where there is YAML to read or write: most processes have none.
export {
  Composer,
  Document,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  Parser,
  stringify,
  visit,
} from 'yaml'
export type { ErrorCode } from 'yaml'
