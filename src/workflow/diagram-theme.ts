/** What a state is in the picture; each tone has colours of its own. */
export type DiagramTone = 'initial' | 'between' | 'completed' | 'ended' | 'removed';

/** Colours on a light background; text on its fill has a contrast of at least 7 : 1. */
export interface ToneColours {
  fill: string;
  line: string;
  text: string;
}

/** Soft fills, for paper and light screens; also written into DOT and Mermaid. */
export const diagramColours: Record<DiagramTone, ToneColours> = {
  initial: { fill: '#e0edff', line: '#5b8def', text: '#173a78' },
  between: { fill: '#eeecfd', line: '#8f86e0', text: '#332b75' },
  completed: { fill: '#dcf5e7', line: '#3fa673', text: '#0f4a2e' },
  ended: { fill: '#fdebe7', line: '#d98570', text: '#6d2413' },
  removed: { fill: '#f1f5f9', line: '#94a3b8', text: '#334155' },
};

/** The same tones on a dark background, for the SVG's style sheet. */
export const darkDiagramColours: Record<DiagramTone, ToneColours> = {
  initial: { fill: '#1b2f52', line: '#7aa7f7', text: '#d6e6ff' },
  between: { fill: '#2a2654', line: '#a79ff0', text: '#e4e1ff' },
  completed: { fill: '#143a2a', line: '#5cc494', text: '#cff5e1' },
  ended: { fill: '#46231c', line: '#e59c89', text: '#ffdfd7' },
  removed: { fill: '#1e293b', line: '#64748b', text: '#cbd5e1' },
};
