import { programBeside } from '../process/child.ts'

/** What `startChild` needs to start the generator process. */
export const generatorProgram: URL = programBeside(import.meta.url, 'main')
