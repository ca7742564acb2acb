//! The screen of `tidegate top`: the state that keys change, and its drawing.

use std::io;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Alignment, Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use ratatui::{DefaultTerminal, Frame};

use super::report::{Change, Page, Sort};

/// The number of rows by which the page keys scroll.
const PAGE_ROWS: usize = 20;

/// The state of the screen.
pub(super) struct Screen {
    socket: String,
    page: Page,
    sort: Sort,
    is_reversed: bool,
    is_paused: bool,
    /// The number of rows that are scrolled over.
    scrolled: usize,
    change: Option<Change>,
}

impl Screen {
    pub(super) fn new(socket: &str, sort: Sort) -> Screen {
        let socket = socket.to_string();
        let (page, is_reversed, is_paused) = (Page::Elements, false, false);
        Screen { socket, page, sort, is_reversed, is_paused, scrolled: 0, change: None }
    }

    /// Takes new reports, unless the screen is paused.
    pub(super) fn show(&mut self, change: Change) {
        if !self.is_paused {
            self.change = Some(change);
        }
    }

    /// Draws the screen, and waits for a key for at most `longest`. Returns false if the program is to end.
    ///
    /// # Errors
    /// If the terminal cannot be written or read.
    pub(super) fn wait(&mut self, terminal: &mut DefaultTerminal, longest: Duration) -> io::Result<bool> {
        terminal.draw(|frame| self.draw(frame))?;
        if !event::poll(longest)? {
            return Ok(true);
        }
        match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => Ok(self.key(key)),
            _ => Ok(true),
        }
    }

    /// Acts on a key. Returns false if the program is to end.
    fn key(&mut self, key: KeyEvent) -> bool {
        let next = |sort: Sort| {
            let at = Sort::ALL.iter().position(|&known| known == sort).unwrap_or(0);
            Sort::ALL[(at + 1) % Sort::ALL.len()]
        };
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
            KeyCode::Char(digit @ '1'..='4') => {
                (self.page, self.scrolled) = (Page::ALL[digit as usize - '1' as usize], 0);
            }
            KeyCode::Tab => {
                let at = Page::ALL.iter().position(|&page| page == self.page).unwrap_or(0);
                (self.page, self.scrolled) = (Page::ALL[(at + 1) % Page::ALL.len()], 0);
            }
            KeyCode::Char('s') => self.sort = next(self.sort),
            KeyCode::Char('r') => self.is_reversed = !self.is_reversed,
            KeyCode::Char('p') => self.is_paused = !self.is_paused,
            KeyCode::Down => self.scrolled += 1,
            KeyCode::Up => self.scrolled = self.scrolled.saturating_sub(1),
            KeyCode::PageDown => self.scrolled += PAGE_ROWS,
            KeyCode::PageUp => self.scrolled = self.scrolled.saturating_sub(PAGE_ROWS),
            KeyCode::Home => self.scrolled = 0,
            _ => {}
        }
        true
    }

    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let areas = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Min(1),
            Constraint::Length(1),
        ])
        .split(frame.area());
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let reversed = Style::new().add_modifier(Modifier::REVERSED);
        let state = if self.is_paused { " (paused)" } else { "" };
        frame.render_widget(Line::styled(format!("tidegate top {}{state}", self.socket), bold), areas[0]);
        let pages = (1..).zip(Page::ALL).map(|(number, page)| match page == self.page {
            true => format!("[{number} {}]", page.title()),
            false => format!(" {number} {} ", page.title()),
        });
        frame.render_widget(Line::raw(pages.collect::<Vec<_>>().join(" ")), areas[2]);
        let order = format!("order: {}", self.sort.text());
        let keys = format!("1-4 table  s {order}  r reverse  p pause  q quit");
        frame.render_widget(Line::styled(keys, reversed), areas[4]);
        let Some(change) = &self.change else {
            frame.render_widget(Line::raw("The first rates come after the second report."), areas[1]);
            return;
        };
        frame.render_widget(Paragraph::new(change.summary()), areas[1]);
        let table = change.table(self.page, self.sort, self.is_reversed);
        let room = usize::from(areas[3].height).saturating_sub(1);
        self.scrolled = self.scrolled.min(table.rows.len().saturating_sub(room));
        let cell = |(text, is_number): (&str, &bool)| {
            let alignment = if *is_number { Alignment::Right } else { Alignment::Left };
            Cell::new(Line::raw(text.to_string()).alignment(alignment))
        };
        let row = |cells: &[String]| {
            Row::new(cells.iter().map(String::as_str).zip(&table.is_number).map(cell).collect::<Vec<_>>())
        };
        let width = |column: usize| {
            let cells = table.rows.iter().map(|row| row[column].chars().count());
            let most = cells.chain([table.head[column].len()]).max().unwrap_or(0);
            Constraint::Length(u16::try_from(most).unwrap_or(u16::MAX))
        };
        let head = Row::new(table.head.iter().copied().zip(&table.is_number).map(cell).collect::<Vec<_>>());
        let rows = table.rows.iter().skip(self.scrolled).map(|cells| row(cells));
        let widths: Vec<Constraint> = (0..table.head.len()).map(width).collect();
        frame.render_widget(Table::new(rows, widths).header(head.style(bold)).column_spacing(2), areas[3]);
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::report::tests::change;
    use super::*;

    fn shown(screen: &mut Screen, (width, height): (u16, u16)) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let cells: Vec<&str> = buffer.content().iter().map(|cell| cell.symbol()).collect();
        cells.chunks(width.into()).map(|line| line.concat().trim_end().to_string() + "\n").collect()
    }

    fn press(screen: &mut Screen, code: KeyCode) -> bool {
        screen.key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn keys_choose_table_and_order() {
        let mut screen = Screen::new("gw.sock", Sort::Rate);
        assert!(shown(&mut screen, (80, 12)).contains("after the second report"));
        screen.show(change());
        let text = shown(&mut screen, (80, 12));
        assert!(text.starts_with("tidegate top gw.sock\nin 4000 (1.50k/s)"), "{text}");
        assert!(text.contains("[1 Elements]") && text.contains("from     FromDevice  1.50k"), "{text}");
        press(&mut screen, KeyCode::Char('s'));
        let text = shown(&mut screen, (80, 12));
        assert!(text.lines().nth(4).unwrap().starts_with("q "), "the most drops come first: {text}");
        press(&mut screen, KeyCode::Char('r'));
        assert!(shown(&mut screen, (80, 12)).lines().nth(4).unwrap().starts_with("from "));
        press(&mut screen, KeyCode::Tab);
        assert!(shown(&mut screen, (80, 12)).contains("queue full"));
        press(&mut screen, KeyCode::Char('3'));
        assert!(shown(&mut screen, (80, 12)).contains("25 %"));
        press(&mut screen, KeyCode::Char('4'));
        assert!(shown(&mut screen, (80, 12)).contains("eth0"));
        assert!(!press(&mut screen, KeyCode::Char('q')) && !press(&mut screen, KeyCode::Esc));
        assert!(!screen.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
    }

    #[test]
    fn scrolling_ends_at_the_last_row() {
        let mut screen = Screen::new("s", Sort::Graph);
        screen.show(change());
        for _ in 0..100 {
            press(&mut screen, KeyCode::PageDown);
        }
        // The table has three rows, of which two fit.
        let text = shown(&mut screen, (80, 7));
        assert!(text.contains("q ") && text.contains("a ") && !text.contains("FromDevice"), "{text}");
        press(&mut screen, KeyCode::Up);
        assert!(shown(&mut screen, (80, 7)).contains("FromDevice"));
    }

    #[test]
    fn a_paused_screen_stays_and_any_size_is_drawn() {
        let mut screen = Screen::new("s", Sort::Rate);
        press(&mut screen, KeyCode::Char('p'));
        screen.show(change());
        assert!(shown(&mut screen, (80, 12)).contains("(paused)"));
        assert!(!shown(&mut screen, (80, 12)).contains("4000"));
        press(&mut screen, KeyCode::Char('p'));
        screen.show(change());
        for size in [(1, 1), (10, 3), (20, 5), (300, 100)] {
            for page in ['1', '2', '3', '4'] {
                press(&mut screen, KeyCode::Char(page));
                shown(&mut screen, size);
            }
        }
    }
}
