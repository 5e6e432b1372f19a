import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

const testFolder = fileURLToPath(new URL('..', import.meta.url))
const agent = join(testFolder, 'booted-kernel/guest/agent.ts')
const placeProcess = join(testFolder, 'booted-kernel/guest/place-process.ts')

/**
 * Writes what runs in the machine as JavaScript, because compiling it there takes an
 * emulated processor longer than the test. Returns the path of the agent.
 */
export const writeGuestPrograms = async (folder: string): Promise<string> => {
  const done = new Set<string>()
  const write = async (path: string): Promise<void> => {
    if (done.has(path)) return
    done.add(path)
    const source = await readFile(path, 'utf8')
    const { outputText } = ts.transpileModule(source, { compilerOptions })
    const target = targetOf(folder, path)
    await mkdir(dirname(target), { recursive: true })
    await writeFile(target, outputText)
    const imports = ts.preProcessFile(outputText).importedFiles
    await Promise.all(
      imports
        .filter(({ fileName }) => fileName.startsWith('.'))
        .map(({ fileName }) =>
          write(join(dirname(path), fileName.replace(/\.js$/, '.ts'))),
        ),
    )
  }
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }')
  await Promise.all([agent, placeProcess].map(write))
  return targetOf(folder, agent)
}

const compilerOptions: ts.CompilerOptions = {
  target: ts.ScriptTarget.ES2023,
  module: ts.ModuleKind.ESNext,
  verbatimModuleSyntax: true,
  rewriteRelativeImportExtensions: true,
}

const targetOf = (folder: string, path: string): string =>
  join(folder, relative(testFolder, path).replace(/\.ts$/, '.js'))
