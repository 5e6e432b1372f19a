import './parts/html-drawing.ts'
import './parts/html-page.ts'
