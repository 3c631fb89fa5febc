//! Drawing the screen.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Paragraph, Row, Table, Widget};

use super::view::{Column, CoreLine, View};
use crate::layout::fitted;

/// Draws everything into as much room as there is.
pub(crate) fn draw(view: &View, sorted: Column, said: &str, area: Rect, buffer: &mut Buffer) {
    let room = usize::from(area.width).max(1);
    let bottleneck: Option<String> = view.bottleneck.as_deref().map(|said| fitted(said, room));
    let title_lines = fitted(&[&*view.title, &*view.packets, &*view.policy].join("\n"), room);
    // The first line of the title, and what is above it, are bold.
    let bold = bottleneck.as_deref().map_or(0, |said| said.lines().count()) + 1;
    let lines: Vec<Line<'_>> =
        bottleneck.iter().flat_map(|said| said.lines()).chain(title_lines.lines()).map(Line::from).collect();
    let [title, cores, services, rest, foot] = Layout::vertical([
        Constraint::Length(shown(lines.len(), area.height / 4)),
        Constraint::Length(1 + shown(view.cores.len(), area.height / 4)),
        Constraint::Length(if view.has_services { 2 + shown(view.services.len(), area.height / 3) } else { 0 }),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(area);
    let styled = lines.into_iter().enumerate().map(|(at, line)| if at < bold { line.style(BOLD) } else { line });
    Paragraph::new(styled.collect::<Vec<_>>()).render(title, buffer);
    draw_cores(view.cores_title, &view.cores, cores, buffer);
    if view.has_services {
        draw_services(view, sorted, services, buffer);
    }
    draw_rest(view, rest, buffer);
    Paragraph::new(said).style(Style::new().add_modifier(Modifier::DIM)).render(foot, buffer);
}

/// Everything as text, of this width and as many lines as it takes.
pub(crate) fn plain(view: &View, sorted: Column, width: u16) -> String {
    let lines = |lines: &[String]| -> Vec<String> {
        lines
            .iter()
            .flat_map(|line| fitted(line, usize::from(width)).lines().map(str::to_owned).collect::<Vec<_>>())
            .collect()
    };
    let flows: Vec<String> = view.flows.iter().take(FLOWS_PLAIN).cloned().collect();
    let (drops, ports, flows) = (lines(&view.drops), lines(&view.ports), lines(&flows));
    let view = &View { drops, ports, flows, ..view.clone() };
    let rest = view.drops.len().max(1) + view.ports.len() + view.flows.len() + 3;
    let most = 4 * view.cores.len().max(1) + 4 * view.services.len().max(1) + rest + 12;
    let area = Rect::new(0, 0, width, u16::try_from(most).unwrap_or(u16::MAX));
    let mut buffer = Buffer::empty(area);
    draw(view, sorted, "", area, &mut buffer);
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    let text: String = (0..area.height).map(|y| format!("{}\n", line(y).trim_end())).collect();
    format!("{}\n", text.trim_end())
}

/// The most flows that are shown as text.
const FLOWS_PLAIN: usize = 10;
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);

/// The number of lines for which there is room; if not for all, the last line says how many are left out.
fn shown(lines: usize, room: u16) -> u16 {
    u16::try_from(lines).unwrap_or(u16::MAX).min(room.max(1))
}

fn block(title: &str) -> Block<'_> {
    Block::new().borders(Borders::TOP).title(title)
}

/// Cores with bars, those that are most busy where there is no room for all.
fn draw_cores(title: &str, cores: &[CoreLine], area: Rect, buffer: &mut Buffer) {
    let inside = block(title).inner(area);
    let room = usize::from(inside.height);
    let title = match cores.len() > room {
        true => format!("{title}, the {room} busiest of {}", cores.len()),
        false => title.to_owned(),
    };
    block(&title).render(area, buffer);
    let mut shown: Vec<&CoreLine> = cores.iter().collect();
    if cores.len() > room {
        shown.sort_by(|a, b| b.busy.unwrap_or(0.0).total_cmp(&a.busy.unwrap_or(0.0)));
        shown.truncate(room);
        shown.sort_by_key(|core| core.number);
    }
    let width = usize::from(area.width / 4);
    let lines = shown.into_iter().map(|core| {
        let Some(busy) = core.busy else { return Line::from(format!("{:>3}  {}", core.number, core.said)) };
        let full = (busy * width as f64).round() as usize;
        let bar = format!("{}{}", "#".repeat(full), " ".repeat(width - full.min(width)));
        Line::from(format!("{:>3} [{bar}] {:>5.1} %  {}", core.number, 100.0 * busy, core.said))
    });
    Paragraph::new(lines.collect::<Vec<_>>()).render(inside, buffer);
}

fn draw_services(view: &View, sorted: Column, area: Rect, buffer: &mut Buffer) {
    let room = usize::from(area.height.saturating_sub(2));
    let more = view.services.len().saturating_sub(room);
    let title = if more > 0 { format!("services, and {more} more") } else { "services".to_owned() };
    let header = Column::ALL.map(|column| {
        let chosen = column == sorted;
        let style = if chosen { BOLD.add_modifier(Modifier::REVERSED) } else { BOLD };
        aligned(column, column.name()).style(style)
    });
    let rows = view
        .services
        .iter()
        .take(room)
        .map(|service| Row::new(Column::ALL.map(|column| aligned(column, &service.cell(column)))));
    let widths = [12, 11, 11, 11, 11, 8, 7].map(Constraint::Length);
    Widget::render(Table::new(rows, widths).header(Row::new(header)).block(block(&title)), area, buffer);
}

/// Names to the left, figures to the right.
fn aligned(column: Column, text: &str) -> Line<'static> {
    let line = Line::from(text.to_owned());
    if column == Column::Name { line } else { line.right_aligned() }
}

/// Drops and ports, and below them the top flows.
fn draw_rest(view: &View, area: Rect, buffer: &mut Buffer) {
    let none = ["none".to_owned()];
    let drops = if view.drops.is_empty() { &none[..] } else { &view.drops[..] };
    let heights =
        [drops.len(), view.ports.len()].map(|lines| if lines == 0 { 0 } else { 1 + shown(lines, area.height / 3) });
    let [dropped, ports, flows] =
        Layout::vertical([Constraint::Length(heights[0]), Constraint::Length(heights[1]), Constraint::Min(0)])
            .areas(area);
    draw_list(view.drops_title, drops, dropped, buffer);
    draw_list("ports", &view.ports, ports, buffer);
    draw_list(&view.flows_title, &view.flows, flows, buffer);
}

fn draw_list(title: &str, lines: &[String], area: Rect, buffer: &mut Buffer) {
    let room = usize::from(area.height.saturating_sub(1));
    let more = lines.len().saturating_sub(room);
    let title = if more > 0 { format!("{title}, and {more} more") } else { title.to_owned() };
    let lines: Vec<Line<'_>> = lines.iter().take(room).map(|line| Line::from(line.as_str())).collect();
    Paragraph::new(lines).block(block(&title)).render(area, buffer);
}

#[cfg(test)]
mod tests {
    use humpyard::lab::metrics::{KernelFigures, PacketsBy};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::view::tests::two;
    use super::*;

    fn view() -> View {
        let (earlier, now) = two();
        View::between(&earlier, &now)
    }

    fn screen(view: &View, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(view, Column::Rate, "q ends", frame.area(), frame.buffer_mut())).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| line(y).trim_end().to_owned()).collect()
    }

    #[test]
    fn everything_is_on_a_small_screen() {
        let screen = screen(&view(), 80, 24);
        let text = screen.join("\n");
        for words in [
            "drr: iface:left to iface:right, for 1:01:03",
            "in 12.0 kpps, out 10.0 kpps",
            "dispatcher 50.0 % busy, decisions p50 120 ns, p99 120 ns, 6 in flight",
            "  0 [#####               ]  25.0 %  5.00 kpps, 3 in flight, 12 wait",
            "  1 [####################] 100.0 %",
            "web            8.00 kpps",
            "buffer_full 2.00 kpps, 4000 so far",
            "iface:left in 12.0 kpps, 5 missed, 2 in the ring",
            "flows, 256 known",
            "udp 198.18.0.1:9 > 198.18.0.2:9",
        ] {
            assert!(text.contains(words), "`{words}` is not in\n{text}");
        }
        assert_eq!((screen.len(), screen[23].as_str()), (24, "q ends"));
        assert!(!text.contains("pushed_out"), "{text}");
    }

    #[test]
    fn of_the_kernels_packets_there_are_no_services() {
        let (earlier, mut now) = two();
        now.kernel = Some(KernelFigures { packets_by: PacketsBy::ReceivingProcessor, order: false });
        now.services = Vec::new();
        let text = plain(&View::between(&earlier, &now), Column::Rate, 80);
        assert!(!["services", "delay", "in flight", "held", "late", "known"].iter().any(|word| text.contains(word)));
        assert!(text.contains("processors, packets that each takes from the interface"), "{text}");
        assert!(text.contains("drops of the kernel, of all interfaces"), "{text}");
    }

    #[test]
    fn a_bottleneck_comes_first() {
        let said = "the dispatcher is the bottleneck: busy 99.0 % of the time, its workers 31.0 %";
        let view = View { bottleneck: Some(said.to_owned()), ..view() };
        let screen = screen(&view, 80, 24);
        assert!(screen[0] == said && screen[1].starts_with("drr: iface:left"), "{screen:?}");
        assert!(plain(&view, Column::Rate, 80).starts_with(said));
    }

    /// A terminal may have any size, also none.
    #[test]
    fn no_size_is_too_small() {
        let mut view = view();
        view.cores = vec![view.cores[0].clone(); 300];
        view.services = vec![view.services[0].clone(); 40];
        for (width, height) in [(0, 0), (1, 1), (10, 3), (80, 24), (300, 100)] {
            screen(&view, width, height);
        }
        let text = screen(&view, 80, 24).join("\n");
        assert!(text.contains("busiest of 300") && text.contains("services, and 3"), "{text}");
    }

    #[test]
    fn text_has_every_line_and_no_colours() {
        let mut view = view();
        view.services = (0..30)
            .map(|at| super::super::view::ServiceLine { name: format!("s{at}"), ..view.services[0].clone() })
            .collect();
        let text = plain(&view, Column::Rate, 80);
        assert!((0..30).all(|at| text.contains(&format!("\ns{at} "))), "{text}");
        assert!(
            text.contains("buffer_full") && text.contains("udp 198.18.0.1:9") && !text.contains('\u{1b}'),
            "{text}"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 80) && text.ends_with('\n'));
    }
}
